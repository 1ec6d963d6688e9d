// See the header.
#include "manager/events.hpp"

#include <algorithm>

#include "manager/core/backoff.hpp"

namespace warmroot::manager {
namespace {

/// A message is hidden so long from a second manager, and from us after a crash. A tick and a
/// delete take seconds; the queue's own default is 30 s.
constexpr std::chrono::seconds kVisibility{60};
/// Events count as live for so long after the last receive that succeeded.
constexpr Milliseconds kLiveFor{60'000};
/// Doubles come within seconds of each other.
constexpr std::size_t kIdsKept = 4096;
/// More than a storm over a whole zone; the queue keeps the rest.
constexpr std::size_t kMostWaiting = 20'000;
/// A spot instance that still runs so long after its warning was not reclaimed (or somebody wrote
/// the event): it is looked at and goes on serving. Far beyond two minutes, for clocks that differ.
constexpr Milliseconds kWarningStale{600'000};
constexpr Milliseconds kRetryBase{1'000};
constexpr Milliseconds kRetryCap{30'000};

const char* name_of(EventKind kind) {
  switch (kind) {
    case EventKind::interruption:
      return "interruption";
    case EventKind::rebalance:
      return "rebalance";
    case EventKind::state_change:
      return "state_change";
    case EventKind::group_ends:
      return "group_ends";
    case EventKind::other:
      return "other";
  }
  return "other";
}

bool begins_to_run(const CloudEvent& event) {
  return event.kind == EventKind::state_change &&
         (event.state == "pending" || event.state == "running");
}

}  // namespace

// ---- the inbox ----

bool EventInbox::take(const CloudEvent& event, std::string receipt, bool known_instance,
                      Instant now) {
  const std::lock_guard lock(mutex_);
  ++counters_[name_of(event.kind)];
  bool fresh = true;
  if (!event.id.empty()) {
    fresh = recent_.insert(event.id).second;
    if (fresh) recent_ids_.push_back(event.id);
    if (recent_ids_.size() > kIdsKept) {
      recent_.erase(recent_ids_.front());
      recent_ids_.pop_front();
    }
  }
  if (!fresh) ++counters_["doubled"];
  if (now - event.time >= kWarningStale) ++counters_["late"];
  listened_ = now;
  // All of them wait for a tick, doubles and strangers as well, so that what is deleted was seen.
  entries_.push_back({event, std::move(receipt)});
  return fresh && known_instance && event.kind != EventKind::other;
}

core::Heard EventInbox::heard(Instant now) {
  const std::lock_guard lock(mutex_);
  handed_out_ = entries_.size();
  core::Heard heard;
  heard.live = listened_ != Instant{} && now - listened_ < kLiveFor;
  for (const auto& [event, receipt] : entries_) {
    if (event.kind == EventKind::other) continue;
    heard.changed.insert(event.instance_id);
    if (event.kind == EventKind::state_change || now - event.time >= kWarningStale) continue;
    core::Warning warning;
    // A group that ends an instance takes it away like EC2 does.
    warning.kind = event.kind == EventKind::rebalance ? core::WarningKind::rebalance
                                                      : core::WarningKind::interruption;
    warning.at = event.time;
    core::Warning& kept = heard.warnings.try_emplace(event.instance_id, warning).first->second;
    if (warning.kind > kept.kind) kept = warning;
  }
  return heard;
}

std::vector<std::string> EventInbox::settle() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> receipts;
  for (; handed_out_ > 0; --handed_out_) {
    if (auto& receipt = entries_.front().receipt; !receipt.empty())
      receipts.push_back(std::move(receipt));
    entries_.pop_front();
  }
  return receipts;
}

void EventInbox::forget_receipts() {
  const std::lock_guard lock(mutex_);
  for (auto& entry : entries_) entry.receipt.clear();
}

void EventInbox::listened(Instant now) {
  const std::lock_guard lock(mutex_);
  listened_ = now;
}

std::size_t EventInbox::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::map<std::string, int> EventInbox::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void EventInbox::count(const std::string& what) {
  const std::lock_guard lock(mutex_);
  ++counters_[what];
}

// ---- the listener ----

EventListener::EventListener(aws::QueueAddress queue, const aws::Connection& connection,
                             EventInbox& inbox, ListenerHooks hooks)
    : inbox_(inbox),
      hooks_(std::move(hooks)),
      receiver_(queue, connection, &stopping_),
      deleter_(queue, connection, &giving_up_) {
  receiving_ = std::thread([this] { receive_loop(); });
  deleting_ = std::thread([this] { delete_loop(); });
}

EventListener::~EventListener() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    // What was settled is deleted first, as far as that goes quickly.
    changed_.wait_for(lock, kDeletesAtTheEnd, [this] { return deleted_all_; });
    giving_up_ = true;
  }
  receiving_.join();
  deleting_.join();
}

void EventListener::tell(const Error& error) {
  if (stopping_) return;
  inbox_.count("failed_calls");
  const std::string text = error.code.empty() ? error.context : error.code;
  {
    const std::lock_guard lock(mutex_);
    if (told_ == text) return;
    told_ = text;
  }
  hooks_.failed(error);
}

void EventListener::pause(Milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return stopping_.load(); });
}

void EventListener::take(const std::vector<aws::QueueMessage>& messages) {
  bool wake = false;
  std::vector<std::string> useless;
  for (const auto& message : messages) {
    auto event = parse_envelope(message.body);
    if (!event) {
      inbox_.count("unparsable");
      hooks_.unparsable(message.message_id, event.error());
      useless.push_back(message.receipt);
    } else if (event->kind == EventKind::other) {
      inbox_.count("other");
      useless.push_back(message.receipt);
    } else {
      // EC2's clock is ours only as far as NTP sees to it; ours may have been wrong at the start.
      event->time += hooks_.now() - hooks_.calendar();
      const bool known = hooks_.known(event->instance_id);
      wake |= inbox_.take(*event, message.receipt, known, hooks_.now());
      if (!known && hooks_.appeared && begins_to_run(*event)) hooks_.appeared(event->instance_id);
    }
  }
  remove(std::move(useless));
  if (wake) hooks_.wake();
}

void EventListener::receive_loop() {
  int failures = 0;
  while (!stopping_) {
    if (inbox_.size() >= kMostWaiting) {  // no tick has succeeded for long
      pause(kRetryBase);
      continue;
    }
    const auto messages = receiver_.receive(aws::kLongestWait, kVisibility);
    if (stopping_) return;
    if (!messages) {
      tell(messages.error());
      pause(core::backoff_delay(++failures, kRetryBase, kRetryCap, 0.5));
      continue;
    }
    failures = 0;
    inbox_.listened(hooks_.now());
    take(*messages);
    const std::lock_guard lock(mutex_);
    told_.clear();
  }
}

void EventListener::remove(std::vector<std::string> receipts) {
  if (receipts.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (auto& receipt : receipts) doomed_.push_back(std::move(receipt));
  }
  changed_.notify_all();
}

void EventListener::delete_loop() {
  for (;;) {
    std::vector<std::string> batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !doomed_.empty(); });
      if (doomed_.empty() || giving_up_) break;
      while (!doomed_.empty() && batch.size() < aws::kMostMessages) {
        batch.push_back(std::move(doomed_.front()));
        doomed_.pop_front();
      }
    }
    // What could not be deleted comes again after its visibility time, and changes nothing.
    if (const auto left = deleter_.remove(batch); !left) {
      tell(left.error());
      if (stopping_) break;
      pause(kRetryBase);
    }
  }
  const std::lock_guard lock(mutex_);
  deleted_all_ = true;
  changed_.notify_all();
}

}  // namespace warmroot::manager
