// Kind to the scripts: each knows its own volume, so that none races for another's; the buckets
// count calls alone.
#include "bench/scale_polling.hpp"

#include <queue>

namespace warmroot::bench {

namespace {

constexpr double kPollEvery = 5;
constexpr int kSdkAttempts = 3;  ///< botocore's standard mode

enum class Step { run, wait_running, create, wait_available, attach, wait_attached, done };

struct Client {
  Step step = Step::attach;
  int attempt = 0;
  double state_due = 0;  ///< when what it waits for becomes so
  NodeWaits waits;       ///< drawn so far
};

struct Tokens {
  Bucket bucket;
  double tokens = 0;
  double filled = 0;
  bool take(double now) {
    tokens = std::min(bucket.capacity, tokens + (now - filled) * bucket.refill_per_s);
    filled = now;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  }
};

struct Polling {
  explicit Polling(const CaseOptions& options)
      : dice(options.seed * 7919 + 5),
        jitter(options.jitter),
        clients(static_cast<std::size_t>(options.nodes)) {
    const bool launch = options.kind == CaseKind::launch;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      clients[i].step = launch ? Step::run : Step::attach;
      queue.emplace(0.1 * dice.unit(), i);
    }
  }

  static Tokens full(Bucket bucket) { return {bucket, bucket.capacity, 0}; }
  double drawn(double value) { return value * (1 + jitter * (2 * dice.unit() - 1)); }

  Tokens& tokens_of(Step step) {
    switch (step) {
      case Step::run:
        return run;
      case Step::create:
        return create;
      case Step::attach:
        return attach;
      case Step::wait_running:
        return instances;
      default:
        return volumes;
    }
  }

  std::string_view action_of(Step step) {
    switch (step) {
      case Step::run:
        return "RunInstances";
      case Step::create:
        return "CreateVolume";
      case Step::attach:
        return "AttachVolume";
      case Step::wait_running:
        return "DescribeInstances";
      default:
        return "DescribeVolumes";
    }
  }

  /// One call of one client; pushes its next.
  void call(double now, std::size_t place) {
    Client& client = clients[place];
    const Step step = client.step;
    const bool reads = step != Step::run && step != Step::create && step != Step::attach;
    ++(reads ? sight.describing_calls : sight.mutating_calls);
    if (step == Step::attach) ++sight.attach_calls;
    const double latency = static_cast<double>(latency_of(action_of(step), dice).count()) / 1000;
    const double executed = now + latency / 2;
    if (!tokens_of(step).take(executed) || (step == Step::run && !machines.take(executed)))
      return throttled(now + latency, place);
    client.attempt = 0;
    if (step == Step::attach) {
      client.waits.attached_as = sight.attached;
      if (sight.attached++ == 0) sight.first_attach_s = executed;
      sight.last_attach_s = std::max(sight.last_attach_s, executed);
    }
    const double answered = now + latency;
    if (reads && executed < client.state_due)
      return queue.emplace(answered + kPollEvery, place), void();
    advance(client, executed, latency / 2);
    if (client.step == Step::done) {
      ++sight.served;
      sight.waits.push_back(client.waits);
      sight.done_s = std::max(sight.done_s, client.state_due);
      return;
    }
    queue.emplace(answered, place);
  }

  void throttled(double answered, std::size_t place) {
    ++sight.throttled_calls;
    Client& client = clients[place];
    const double pause = dice.unit() * static_cast<double>(1 << client.attempt);
    if (++client.attempt < kSdkAttempts) {
      queue.emplace(answered + pause, place);
      return;
    }
    client.attempt = 0;  // the command fails, and the loop around it tries again
    queue.emplace(answered + kPollEvery, place);
  }

  /// The call of the step was executed, `up` after it was sent.
  void advance(Client& client, double executed, double up) {
    NodeWaits& waits = client.waits;
    switch (client.step) {
      case Step::run:
        waits.run_call_s = up;
        waits.pending_s = drawn(5);
        client.state_due = executed + waits.pending_s;
        client.step = Step::wait_running;
        break;
      case Step::wait_running:
        client.step = Step::create;
        break;
      case Step::create:
        waits.create_call_s = up;
        waits.creating_s = drawn(1.5);
        client.state_due = executed + waits.creating_s;
        client.step = Step::wait_available;
        break;
      case Step::wait_available:
        client.step = Step::attach;
        break;
      case Step::attach:
        waits.attach_call_s = up;
        waits.attaching_s = drawn(2);
        client.state_due = executed + waits.attaching_s;
        client.step = Step::wait_attached;
        break;
      default:
        client.step = Step::done;
    }
  }

  using Event = std::pair<double, std::size_t>;
  Dice dice;
  double jitter;
  std::vector<Client> clients;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue;
  Tokens run = full(kRunCalls);
  Tokens machines = full(kRunInstances);
  Tokens create = full(kCreateCalls);
  Tokens attach = full(kAttachCalls);
  Tokens instances = full({100, 20});
  Tokens volumes = full({100, 20});
  PollingSight sight;
};

}  // namespace

PollingSight run_polling(const CaseOptions& options) {
  Polling polling(options);
  while (!polling.queue.empty()) {
    const auto [now, place] = polling.queue.top();
    polling.queue.pop();
    if (now > 4 * 3600) break;
    polling.call(now, place);
  }
  return polling.sight;
}

}  // namespace warmroot::bench
