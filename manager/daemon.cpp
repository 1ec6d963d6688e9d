#include "manager/daemon.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <utility>

#include "manager/daemon_log.hpp"
#include "manager/ledger_keys.hpp"

namespace warmroot::manager {
namespace {

/// A hang-up, which wakes nobody, is noticed this soon.
constexpr Milliseconds kHangupSeen{300};
/// After an error of the ledger (disk full, locked): it may pass.
constexpr Milliseconds kLedgerPatience{5'000};
/// Where STS does not say whose credentials these are, it is asked again, less and less often: the
/// loop waits for its answer.
constexpr std::chrono::minutes kMostAccountPatience{60};
/// /healthz: idle looks come every 30 s and a dead EC2 is retried for seconds; ten such spans mean
/// trouble.
constexpr std::chrono::minutes kHealthyFor{5};
constexpr int kHistoryShown = 200;
/// Reports of instances that EC2 does not show any more stay visible this long.
constexpr std::chrono::hours kReportsKept{1};

bool holds_volume(const core::NodeRow& row) {
  using enum core::LeaseState;
  return row.lease && (*row.lease == attaching || *row.lease == checking || *row.lease == active ||
                       *row.lease == leaving);
}

/// A list of mistakes is one event for each; the line above the list only counts them.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (const auto first = line.find_first_not_of(' '); first != std::string::npos)
      lines.push_back(line.substr(first));
  if (lines.size() > 1) lines.erase(lines.begin());
  return lines;
}

LogLevel level_of(const CallReport& call) {
  return call.outcome.state == core::IntentState::accepted ? LogLevel::info : LogLevel::warning;
}

}  // namespace

Daemon::Daemon(Context& context, BootstrapProgram program, AdmissionRules rules)
    : context_(context), program_(std::move(program)), rules_(std::move(rules)) {
  view_.deployment = context_.config.desired.deployment;
  view_.region = context_.connection.settings.region;
  view_.verifies_identity = rules_.certificates.has_value();
}

Daemon::~Daemon() = default;

Pages Daemon::pages() {
  Pages pages;
  // A page of a large world takes a while and much memory: the loop does not wait for it, and no
  // second one is made beside it.
  const auto view = [this] {
    const std::lock_guard lock(view_mutex_);
    return view_;
  };
  pages.status_json = [this, view] {
    const std::lock_guard one(page_mutex_);
    return status_json(view(), board_.entries());
  };
  pages.metrics_text = [this, view] {
    const std::lock_guard one(page_mutex_);
    TickView now = view();
    now.refusals = board_.refusals.all();
    now.keys_replaced = board_.keys_replaced;
    return metrics_text(now, board_.entries());
  };
  pages.healthy = [this] {
    return wall_clock() - Instant(Milliseconds(last_good_look_ms_.load())) < kHealthyFor;
  };
  pages.earlier_program = [this](const std::string& sha256) {
    return earlier_programs_.of(sha256);
  };
  pages.on_port = [this](bool there) {
    log_event(there ? LogLevel::info : LogLevel::error,
              there ? "the port is there again" : "the port was lost: no instance can report",
              {{"port", std::to_string(port_)}});
  };
  pages.block_list = [this](const std::string& snapshot) { return block_lists_.of(snapshot); };
  return pages;
}

Ok Daemon::listen_to_events() {
  const auto& pools = context_.config.desired.pools;
  others_launch_ =
      std::any_of(pools.begin(), pools.end(), [](const auto& pool) { return !pool.launch; });
  if (context_.config.queue_url == queue_url_) return {};
  listener_.reset();
  inbox_.forget_receipts();
  queue_url_ = context_.config.queue_url;
  if (queue_url_.empty()) return {};
  const auto& connection = context_.connection;
  TRY_ASSIGN(auto address,
             aws::resolve_queue(queue_url_, connection.settings.choices, connection.settings.region,
                                *connection.surroundings));
  ListenerHooks hooks;
  hooks.now = wall_clock;
  hooks.calendar = calendar_clock;
  hooks.known = [this](const std::string& id) { return board_.known(id).has_value(); };
  hooks.wake = [this] { board_.wake(); };
  hooks.appeared = [this](const std::string& id) {
    if (others_launch_) board_.knock(id, std::chrono::steady_clock::now());
  };
  hooks.failed = [](const Error& error) {
    log_event(LogLevel::warning, "events cannot be read", {{"error", error.message()}});
  };
  hooks.unparsable = [](const std::string& id, const Error& error) {
    log_event(LogLevel::warning, "event not understood, deleted",
              {{"message", id}, {"error", error.message()}});
  };
  listener_ = std::make_unique<EventListener>(std::move(address), context_.connection, inbox_,
                                              std::move(hooks));
  log_event(LogLevel::info, "listening to events", {{"queue", queue_url_}});
  return {};
}

Ok Daemon::run(const ListenAddress& address, SignalWatch& signals) {
  LedgerKeys keys(*context_.ledger, wall_clock);
  if (const Ok kept = earlier_programs_.keep(program_); !kept)
    log_event(LogLevel::warning, "the bootstrap is not kept for after an upgrade",
              {{"error", kept.error().message()}});
  last_good_look_ms_ = wall_clock().time_since_epoch().count();
  rules_.region = view_.region;
  TRY_ASSIGN(rules_.account_id, context_.ledger->account());
  if (!rules_.certificates)
    log_event(LogLevel::warning, "identities are not verified",
              {{"remedy", "serve --identity-certificates FILE"}});
  TRY_ASSIGN(const std::unique_ptr<ReportServer> server,
             ReportServer::start(address, rules_, board_, keys, program_, hot_lists_, pages()));
  port_ = server->port();
  user_data_ = std::make_unique<UserDataSource>(context_.config, program_, port_);
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  fmt::print("listening={}{}{}:{}\n", is_ipv6 ? "[" : "", address.host, is_ipv6 ? "]" : "", port_);
  std::fflush(stdout);
  log_event(LogLevel::info, "serving",
            {{"deployment", view_.deployment},
             {"region", view_.region},
             {"ec2", context_.connection.settings.endpoint.url()},
             {"state", context_.options.state},
             {"bootstrap_sha256", program_.sha256}});

  context_.connection.credentials->on_new = [this](const aws::FoundCredentials& found) {
    has_new_credentials_ = true;
    log_event(LogLevel::info, "credentials renewed",
              {{"source", found.source},
               {"expires", found.expires ? to_iso8601(*found.expires) : "never"}});
  };
  ReconcilerOptions options = reconciler_options(context_, *user_data_);
  options.user_data = [this](const core::PoolSpec& pool) { return (*user_data_)(pool); };
  options.reports = [this] { return board_.snapshot(); };
  options.heard = [this] { return inbox_.heard(wall_clock()); };
  Reconciler reconciler(*context_.connection.ec2, *context_.ledger, std::move(options));
  const std::stop_token stop = signals.stop_token();
  const std::stop_callback waker(stop, [this] { board_.wake(); });
  TRY(listen_to_events());
  TRY_ASSIGN(const std::unique_ptr<OrderSocket> socket,
             OrderSocket::listen(context_.options.state, [this] { board_.wake(); }));
  account_check_due_ = std::chrono::steady_clock::now() + account_patience_;
  while (!stop.stop_requested()) {
    if (signals.take_hangup()) read_spec_again(reconciler);
    tick(reconciler, stop);
    answer_orders(*socket);
    wait(reconciler.shortest_pause(), next_look_, signals);
  }
  listener_.reset();
  log_event(LogLevel::info, "stopped");
  return {};
}

bool Daemon::is_our_account() {
  // Asked here once more, because a look of the reconciler's would already sign with new ones.
  (void)context_.connection.credentials->get();
  if (has_new_credentials_.exchange(false)) account_check_due_ = std::chrono::steady_clock::now();
  if (!account_check_due_ || std::chrono::steady_clock::now() < *account_check_due_) return true;
  const auto note = check_account(*context_.ledger, context_.account_source());
  if (!note) {
    log_event(
        LogLevel::error, "credentials of another account",
        {{"error", note.error().message()}, {"source", context_.connection.credentials->source()}});
    return false;
  }
  account_check_due_.reset();
  if (*note) {
    log_event(LogLevel::warning, "account not checked", {{"text", **note}});
    account_check_due_ = std::chrono::steady_clock::now() + account_patience_;
    account_patience_ = std::min(2 * account_patience_, kMostAccountPatience);
  }
  return true;
}

void Daemon::tick(Reconciler& reconciler, const std::stop_token& stop) {
  if (!is_our_account()) {
    next_look_ = kLedgerPatience;
    return;
  }
  reconciler.look_at(board_.take_knockers());
  const std::uint64_t releases_seen = board_.releases_heard();
  const auto report = reconciler.tick(stop);
  if (!report) {
    log_event(LogLevel::error, "tick failed", {{"error", report.error().message()}});
    next_look_ = kLedgerPatience;
    return;
  }
  next_look_ = report->plan.next_look;
  // Only now may the queue forget what the ledger knows.
  if (report->recorded) {
    auto settled = inbox_.settle();
    if (listener_) listener_->remove(std::move(settled));
  }
  if (!report->blind) last_good_look_ms_ = report->started.time_since_epoch().count();
  log_calls(*report);
  log_changes(*report);
  publish_known(*report, releases_seen);
  publish(*report);
}

void Daemon::publish(const TickReport& report) {
  std::vector<StatusEvent> history;
  if (auto entries = context_.ledger->history(kHistoryShown))
    for (auto entry = entries->rbegin(); entry != entries->rend(); ++entry)
      history.push_back(
          {entry->time, entry->node.empty() ? entry->pool : entry->node, entry->event});
  const std::lock_guard lock(view_mutex_);
  for (const CallReport& call : report.calls)
    ++view_.calls[call.action + " " + std::string(core::to_string(call.outcome.state))];
  view_.history = std::move(history);
  view_.events = inbox_.counters();
  view_.listens = listener_ != nullptr;
  if (report.blind) {  // what was seen last stays, with the reason why nothing newer is there
    view_.plan.notes = report.plan.notes;
    view_.plan.stable = false;
    return;
  }
  view_.updated = report.started;
  view_.plan = report.plan;
  view_.instance_states.clear();
  for (const auto& [id, instance] : report.observed.instances)
    view_.instance_states[id] = aws::to_string(instance.state);
}

void Daemon::publish_known(const TickReport& report, std::uint64_t releases_seen) {
  if (report.blind) return;
  std::map<std::string, KnownInstance> known;
  for (const auto& [id, instance] : report.observed.instances) {
    if (instance.state == aws::InstanceState::terminated) continue;
    const auto pool = instance.tags.find(core::kTagPool);
    if (pool == instance.tags.end()) continue;
    const auto without = report.plan.without_node.find(id);
    known[id] = {pool->second, "", "", report.plan.drains.contains(id),
                 without == report.plan.without_node.end() ? "" : without->second};
    known[id].image_id = instance.image_id;
    known[id].instance_type = instance.instance_type;
    known[id].private_ip = instance.private_ip;
    known[id].block_list = !context_.config.without_block_lists.contains(pool->second);
  }
  for (const core::NodeRow& row : report.plan.nodes) {
    if (const auto found = known.find(row.successor_id); found != known.end())
      found->second.node = row.node;
    const auto found = known.find(row.instance_id);
    if (found == known.end()) continue;
    found->second.node = row.node;
    if (!holds_volume(row)) continue;
    found->second.volume_id = row.volume_id;
    const auto volume = report.observed.volumes.find(row.volume_id);
    if (volume == report.observed.volumes.end()) continue;
    found->second.snapshot_id = volume->second.snapshot_id;
    const auto lineage = volume->second.tags.find(core::kTagLineage);
    if (lineage != volume->second.tags.end()) found->second.lineage = lineage->second;
  }
  block_lists_.want(snapshots_to_list(context_.config, report.observed));
  hot_lists_.keep(lineages_in_use(context_.config, report.observed));
  board_.set_known(context_.config.desired.deployment, std::move(known), releases_seen);
  board_.forget_unknown(report.started - kReportsKept);
}

void Daemon::log_calls(const TickReport& report) {
  for (const CallReport& call : report.calls) {
    LogFields fields = {{"action", call.action},
                        {"resource", call.resource},
                        {"pool", call.pool},
                        {"outcome", std::string(core::to_string(call.outcome.state))}};
    if (!call.reason.empty()) fields.emplace_back("reason", call.reason);
    if (call.replayed) fields.emplace_back("replayed", "yes");
    if (!call.outcome.sentence.empty()) fields.emplace_back("error", call.outcome.sentence);
    log_event(level_of(call), "call", fields);
  }
}

void Daemon::log_changes(const TickReport& report) {
  std::set<std::string> notes;
  for (const core::Note& note : report.plan.notes) {
    const std::string text = note_line(note);
    notes.insert(text);
    if (!notes_told_.contains(text))
      log_event(note.blocking ? LogLevel::warning : LogLevel::info, "note", {{"text", text}});
  }
  notes_told_ = std::move(notes);
  for (const core::NodeRow& row : report.plan.nodes) {
    const std::string state(core::describe(row.condition).word);
    std::string& told = states_told_[row.node];
    if (told == state) continue;
    LogFields fields = {{"node", row.node}, {"state", state}};
    if (!row.volume_id.empty()) fields.emplace_back("volume", row.volume_id);
    if (!row.instance_id.empty()) fields.emplace_back("instance", row.instance_id);
    log_event(LogLevel::info, "node", fields);
    told = state;
  }
}

void Daemon::read_spec_again(Reconciler& reconciler) {
  auto config = load_spec(context_.options.spec);
  if (config && config->desired.deployment != context_.config.desired.deployment)
    config = fail(ErrorKind::misconfigured,
                  "the deployment cannot change while the manager runs; restart it");
  if (config && !config->region.empty() && config->region != context_.connection.settings.region)
    config = fail(ErrorKind::misconfigured,
                  "the Region cannot change while the manager runs; restart it");
  if (!config) {
    for (const std::string& line : lines_of(config.error().message()))
      log_event(LogLevel::error, "spec kept as it was", {{"error", line}});
    return;
  }
  context_.config = std::move(*config);
  user_data_ = std::make_unique<UserDataSource>(context_.config, program_, port_);
  reconciler.set_desired(context_.config.desired);
  if (auto listening = listen_to_events(); !listening)
    log_event(LogLevel::error, "events cannot be read", {{"error", listening.error().message()}});
  log_event(LogLevel::info, "spec read again", {{"spec", context_.options.spec}});
}

void Daemon::answer_orders(OrderSocket& socket) {
  for (const std::int64_t id : socket.awaited()) {
    const auto standing = context_.ledger->order(id);
    if (standing && standing->state != OrderState::open)
      socket.answer({id, standing->state == OrderState::met, standing->answer});
    else if (!standing && standing.error().kind == ErrorKind::gone)
      socket.answer({id, false, "the ledger has no such order"});
  }
}

void Daemon::wait(Milliseconds at_least, Milliseconds at_most, const SignalWatch& signals) {
  const auto began = std::chrono::steady_clock::now();
  auto until = began + at_most;
  while (!signals.stop_token().stop_requested() && !signals.hangup_pending()) {
    const auto left = std::chrono::ceil<Milliseconds>(until - std::chrono::steady_clock::now());
    if (left <= Milliseconds(0)) return;
    if (board_.wait(std::min(left, kHangupSeen)))
      until = std::min(until, began + at_least);  // in a storm, one tick for many events
  }
}

}  // namespace warmroot::manager
