#include "bootstrap/report.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "bootstrap/base/log.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/report_sign.hpp"
#include "bootstrap/warm/block_list.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

/// While warming, progress is worth a report a second; else a sign of life, and how long a wish may
/// take to be heard.
constexpr milliseconds kOften{1000};
constexpr milliseconds kSeldom{5000};
/// The manager may have to observe the instance first, which takes it a second or two.
constexpr milliseconds kFirstRetry{500};
constexpr milliseconds kLastRetry{10000};
constexpr milliseconds kConnectTimeout{2000};
constexpr milliseconds kRequestTimeout{5000};
constexpr std::size_t kKeyFileBytes = 1024;
/// A block list is the longest answer.
constexpr std::size_t kMostReplyBytes = warm::kMostBlockListBytes + 64 * 1024;
constexpr unsigned kExchangeTries = 5;
constexpr int kGone = 410;
/// Numbers are microseconds: some years.
constexpr std::uint64_t kLongestSkip = std::uint64_t{100'000'000'000'000};

/// In microseconds, as numbers are. systemd has ended this process by then.
constexpr std::uint64_t kNumbersAhead = 120'000'000;

/// The lines of a key file.
struct KeptKey {
  std::string hex;
  std::string node;          ///< empty: none was named
  std::uint64_t number = 0;  ///< that all later ones are greater than; a line only from a reboot on
};

KeptKey parse_kept_key(const std::string& text) {
  std::istringstream lines(text);
  KeptKey kept;
  std::getline(lines, kept.hex);
  std::getline(lines, kept.node);
  lines >> kept.number;
  return kept;
}

/// A request as bounded in time and in length of the answer as each of ours.
HttpRequest bounded_request(const std::string& method, const std::string& url, std::string body) {
  HttpRequest request;
  request.method = method;
  request.url = url;
  request.body = std::move(body);
  request.connect_timeout = kConnectTimeout;
  request.timeout = kRequestTimeout;
  request.most_reply_bytes = kMostReplyBytes;
  return request;
}

/// Why there is no good answer, for the log.
std::string answer_in_words(const Result<HttpReply>& reply) {
  if (!reply) return reply.error().message();
  const std::string reason = refusal_reason(reply->body);
  return "status " + std::to_string(reply->status) + (reason.empty() ? "" : ": " + reason);
}

}  // namespace

Reporter::Reporter(StatusBook& book, std::string manager_url, std::string key_file,
                   Identity identity, std::function<void(const Wishes&)> on_wishes)
    : book_(book),
      url_(std::move(manager_url)),
      key_file_(std::move(key_file)),
      identity_(std::move(identity)),
      on_wishes_(std::move(on_wishes)) {}

Reporter::~Reporter() {
  stop();
}

void Reporter::start() {
  if (!url_.empty()) thread_ = std::thread([this] { run(); });
}

void Reporter::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Reporter::stage_changed(Stage stage, std::string reason, std::string message) {
  {
    const std::lock_guard lock(mutex_);
    latest_ = {stage, reason, {}};
    events_.push_back({stage, std::move(reason), std::move(message)});
  }
  changed_.notify_all();
}

void Reporter::exchange(std::string method, std::string path, std::string body, Answered done) {
  {
    const std::lock_guard lock(mutex_);
    exchanges_.push_back({std::move(method), std::move(path), std::move(body), std::move(done), 0});
    ++unanswered_;
  }
  changed_.notify_all();
}

void Reporter::run_exchanges() {
  for (;;) {
    Exchange next;
    {
      const std::lock_guard lock(mutex_);
      // A stage is waited for, by the manager and by whoever releases: it goes first.
      if (stopping_ || exchanges_.empty() || !events_.empty()) return;
      next = std::move(exchanges_.front());
      exchanges_.pop_front();
    }
    auto reply = request_signed(next.method, next.path, next.body);
    const bool good = reply && reply->status == 200;
    if (!good)
      log_event(LogLevel::info, next.path + " not answered", {{"why", answer_in_words(reply)}});
    constexpr int kUnavailable = 503;
    const bool may_be_good_yet = !reply || reply->status == kUnavailable;
    if (may_be_good_yet && ++next.tries < kExchangeTries) {
      later_.push_back(std::move(next));
      continue;
    }
    next.done(good ? std::optional(std::move(reply->body)) : std::nullopt);
    const std::lock_guard lock(mutex_);
    --unanswered_;
  }
}

bool Reporter::flush(milliseconds limit, bool hurry) {
  if (!thread_.joinable()) return true;
  std::unique_lock lock(mutex_);
  const auto delivered = [this] { return events_.empty() && unanswered_ == 0; };
  if (hurry) {
    ++hurried_;
    changed_.notify_all();
  }
  changed_.wait_for(lock, limit, [&] { return delivered() || stopping_; });
  if (hurry) --hurried_;
  return delivered();
}

bool Reporter::has_told(Stage stage) {
  const std::lock_guard lock(mutex_);
  return url_.empty() || told_.contains(stage);
}

bool Reporter::pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return stopping_; });
  return !stopping_;
}

bool Reporter::rest() {
  const auto began = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stopping_ && events_.empty() && exchanges_.empty()) {
    const bool is_awaited = hurried_ > 0 && unanswered_ > 0;
    const milliseconds time = is_awaited ? kFirstRetry : often_ ? kOften : kSeldom;
    if (changed_.wait_until(lock, began + time) == std::cv_status::timeout) break;
  }
  return !stopping_;
}

/// Strictly increasing over restarts of the daemon too: the clock in microseconds, or one more than
/// the last.
std::uint64_t Reporter::next_sequence() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto clock = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  return sequence_ = std::max(sequence_ + 1, clock);
}

/// The manager gives the key once: a daemon that starts again finds it, and its node, here; after
/// an orderly reboot with the number that the boot before has left.
bool Reporter::recall_key() {
  const auto text = read_file(key_file_, kKeyFileBytes);
  if (!text) return false;
  const KeptKey kept = parse_kept_key(*text);
  key_ = parse_key(kept.hex);
  if (!key_) return false;
  sequence_ = std::max(sequence_.load(), kept.number);
  if (!kept.node.empty()) book_.update([&](Status& status) { status.node = kept.node; });
  return true;
}

std::optional<std::string> Reporter::key_for_next_boot() const {
  const auto text = read_file(key_file_, kKeyFileBytes);
  if (!text) return std::nullopt;
  const KeptKey kept = parse_kept_key(*text);
  return kept.hex + "\n" + kept.node + "\n" + std::to_string(sequence_ + kNumbersAhead) + "\n";
}

bool Reporter::say_hello() {
  return recall_key() || ask_for_key();
}

/// Without a signature the manager decides: one that has no certificates takes the id.
bool Reporter::ask_for_key() {
  const auto identity = identity_();
  if (!identity)
    log_event(LogLevel::warning, "no identity document", {{"why", identity.error().message()}});
  auto request = bounded_request("POST", url_ + "/v1/hello",
                                 hello_body(book_.snapshot(), identity.value_or(std::nullopt)));
  request.headers = {{"Content-Type", "application/json"}};
  const auto reply = http_.perform(request);
  if (!reply || reply->status != 200) {
    log_event(LogLevel::info, "hello not answered",
              {{"why", reply ? "status " + std::to_string(reply->status) + " " + reply->body
                             : reply.error().message()}});
    return false;
  }
  const auto answer = parse_hello_answer(reply->body);
  auto key = answer ? parse_key(answer->key_hex) : std::nullopt;
  if (!key) {
    log_event(LogLevel::warning, "hello answered without a key");
    return false;
  }
  key_ = std::move(key);
  [[maybe_unused]] const Ok kept =
      write_file_atomic(key_file_, answer->key_hex + "\n" + answer->node.value_or("") + "\n", 0600);
  book_.update([&](Status& status) { status.node = answer->node; });
  log_event(LogLevel::notice, "hello answered", {{"node", answer->node.value_or("-")}});
  on_wishes_({false, answer->volume_id, {}});
  return true;
}

Result<HttpReply> Reporter::request_signed(const std::string& method, const std::string& path,
                                           std::string body) {
  auto request = bounded_request(method, url_ + path, std::move(body));
  const std::uint64_t sequence = next_sequence();
  request.headers = {{"Content-Type", "application/json"},
                     {"X-Warmroot-Instance", book_.snapshot().instance_id},
                     {"X-Warmroot-Sequence", std::to_string(sequence)},
                     {"X-Warmroot-Signature", sign_report(*key_, sequence, request.body)}};
  return http_.perform(request);
}

bool Reporter::send(const Event& event) {
  const auto reply =
      request_signed("POST", "/v1/report",
                     report_body(book_.snapshot(), event.stage, event.reason, event.message));
  if (reply && reply->status == 200) {
    refusal_.clear();
    on_wishes_(parse_wishes(reply->body));
    return true;
  }
  // It never takes this one (it cannot read it, or the volume is another instance's by now): what
  // comes behind it must not wait for that.
  constexpr int kBadRequest = 400;
  if (reply && (reply->status == kBadRequest || reply->status == kGone)) {
    tell_refusal(event, *reply);
    return true;
  }
  // A manager that lost its ledger has lost the keys. One that has ours still gives no other.
  constexpr int kUnauthorized = 401;
  if (reply && reply->status == kUnauthorized) ask_for_key();
  constexpr int kConflict = 409;
  if (reply && reply->status == kConflict) skip_numbers();
  log_event(LogLevel::info, "report not taken",
            {{"stage", to_string(event.stage)}, {"why", answer_in_words(reply)}});
  return false;
}

/// Each report gets the same answer. A disk whose volume is another instance's by now is not to be
/// taken, either, and what the manager wishes all the same is done.
void Reporter::tell_refusal(const Event& event, const HttpReply& reply) {
  const std::string why = answer_in_words(reply);
  if (std::exchange(refusal_, why) != why)
    log_event(LogLevel::warning, "report refused",
              {{"stage", to_string(event.stage)}, {"why", why}});
  if (reply.status == kGone) on_wishes_(wishes_beside_refusal(reply.body, why));
}

/// A clock that was ahead when an earlier daemon numbered its reports has been set back since.
void Reporter::skip_numbers() {
  sequence_ = next_sequence() + skip_;
  if (skip_ < kLongestSkip) skip_ *= 2;
}

void Reporter::run() {
  milliseconds retry = kFirstRetry;
  const auto back_off = [&] {
    const bool go_on = pause(retry);
    retry = std::min(retry * 2, kLastRetry);
    return go_on;
  };
  while (!say_hello())
    if (!back_off()) return;
  retry = kFirstRetry;
  while (true) {
    const Status status = book_.snapshot();
    std::optional<Event> queued;
    std::string reason;  // of a stage that is said again: the manager may have lost it
    {
      const std::lock_guard lock(mutex_);
      if (!events_.empty()) queued = events_.front();
      if (latest_.stage == status.stage) reason = latest_.reason;
      if (stopping_) return;
    }
    const Event event = queued ? *queued : Event{status.stage, reason, status.message};
    if (!send(event)) {
      if (!back_off()) return;
      continue;
    }
    retry = kFirstRetry;
    {
      const std::lock_guard lock(mutex_);
      told_.insert(event.stage);
      if (queued) events_.pop_front();
    }
    run_exchanges();
    changed_.notify_all();
    if (!rest()) return;
    const std::lock_guard lock(mutex_);
    for (Exchange& exchange : later_) exchanges_.push_back(std::move(exchange));
    later_.clear();
  }
}

}  // namespace warmroot::bootstrap
