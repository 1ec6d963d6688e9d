// See the header. Source of the figures: reference/ec2.md, "Request throttling for the EC2 API".
#include "tests/fleet_sim/spending.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "manager/core/budget.hpp"

namespace warmroot::fleet {

namespace {

struct Rate {
  const char* action;
  double size;
  double refill_per_s;
};
constexpr Rate kRates[] = {{"RunInstances", 5, 2},          {"CreateVolume", 100, 5},
                           {"AttachVolume", 50, 5},         {"DetachVolume", 50, 5},
                           {"DeleteVolume", 100, 5},        {"TerminateInstances", 100, 5},
                           {"CreateTags", 100, 10},         {"DeleteTags", 100, 10},
                           {"CreateFleet", 50, 5},          {"ModifyInstanceAttribute", 50, 5},
                           {"CopyVolumes", 50, 5},          {"CreateLaunchTemplate", 50, 5},
                           {"DeleteLaunchTemplate", 50, 5}, {"CreateSnapshot", 100, 5}};
/// The second bucket of RunInstances, whose tokens are instances.
constexpr Rate kInstances{"RunInstances instances", 1000, 2};
/// Describe calls that are filtered or paged, as all of ours are; each action has its own.
constexpr Rate kLooks{"Describe", 100, 20};
/// A replay waits 0.2 s, then longer and longer up to 30 s; each start of the process begins anew.
constexpr Rate kReplays{"replays of one call", 12, 0.2};
/// Managers look as often whatever their share of the calls that change something is.
constexpr double kShareOfLooks = core::Budget::kDefaultShare;
/// What serving a node anew takes, one after the other.
constexpr const char* kChain[] = {"TerminateInstances", "CreateVolume", "RunInstances",
                                  "AttachVolume"};
/// Fractions of a token that two ways of counting may differ by.
constexpr double kSlack = 0.01;

const Rate* rate_of(std::string_view action) {
  const auto* rate = std::find_if(std::begin(kRates), std::end(kRates),
                                  [&](const Rate& each) { return action == each.action; });
  return rate == std::end(kRates) ? nullptr : rate;
}

Milliseconds time_for(double calls, double refill_per_s) {
  return Milliseconds{std::llround(std::ceil(1000 * std::max(0.0, calls) / refill_per_s))};
}

}  // namespace

bool Spending::take(Bucket& bucket, double size, double refill_per_s, double count, Instant now) {
  if (bucket.filled == Instant{}) bucket = {size, now};
  const double passed = static_cast<double>((now - bucket.filled).count()) / 1000;
  bucket.tokens = std::min(size, bucket.tokens + passed * refill_per_s);
  bucket.filled = now;
  bucket.tokens -= count;
  return bucket.tokens >= -kSlack;
}

std::string Spending::spend(int host, const std::string& action, const std::string& body,
                            int instances, Instant now) {
  const auto* rate = rate_of(action);
  if (!rate) return action + " has no bucket";
  if (!take(whole_[action], rate->size, rate->refill_per_s, 1, now))
    return action + " beyond EC2's whole bucket, replays included";
  const auto [sent, first] = sent_[host].try_emplace(body);
  if (!first)
    return take(sent->second, kReplays.size, kReplays.refill_per_s, 1, now)
               ? ""
               : "the same " + action + " again and again";
  return first_sent(host, action, instances, now);
}

std::string Spending::first_sent(int host, const std::string& action, int instances, Instant now) {
  const auto* rate = rate_of(action);
  auto& buckets = buckets_[host];
  const bool within = take(buckets[action], std::max(1.0, rate->size * share_),
                           rate->refill_per_s * share_, 1, now);
  const bool few =
      action != "RunInstances" || take(buckets[kInstances.action], kInstances.size * share_,
                                       kInstances.refill_per_s * share_, instances, now);
  return within && few ? "" : action + " beyond the manager's share of its bucket";
}

std::string Spending::ask(int host, const std::string& action, Instant now) {
  const auto* rate = rate_of(action);
  if (!rate) return action + " has no bucket";
  if (!take(whole_[action], rate->size, rate->refill_per_s, 1, now))
    return action + " beyond EC2's whole bucket, questions included";
  // It goes out whatever is left, and launches wait for it.
  std::ignore = first_sent(host, action, 0, now);
  return {};
}

std::string Spending::look(int host, const std::string& action, Instant now) {
  const bool within = take(looks_[host][action], kLooks.size * kShareOfLooks,
                           kLooks.refill_per_s * kShareOfLooks, 1, now);
  return within ? "" : action + " beyond the manager's share of its bucket";
}

Milliseconds Spending::wait_for(int host, int nodes, Instant now) const {
  Milliseconds wait{0};
  for (const char* action : kChain) {
    const auto* rate = rate_of(action);
    double tokens = std::max(1.0, rate->size * share_);
    if (const auto of_host = buckets_.find(host); of_host != buckets_.end())
      if (const auto found = of_host->second.find(action); found != of_host->second.end()) {
        const double passed = static_cast<double>((now - found->second.filled).count()) / 1000;
        tokens = std::min(tokens, found->second.tokens + passed * rate->refill_per_s * share_);
      }
    wait += time_for(nodes - tokens, rate->refill_per_s * share_);
  }
  return wait;
}

Milliseconds Spending::wait_for_one() const {
  Milliseconds wait{0};
  for (const char* action : kChain) wait += time_for(1, rate_of(action)->refill_per_s * share_);
  return wait;
}

void Spending::restarted(int host) {
  buckets_.erase(host);
  looks_.erase(host);
}

}  // namespace warmroot::fleet
