// See the header. Source of the figures: reference/ec2.md, "Request throttling for the EC2 API".
#include "tests/fleet_sim/spending.hpp"

#include <algorithm>

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
/// What one manager takes of an account that it shares.
constexpr double kShare = 0.5;
/// Fractions of a token that two ways of counting may differ by.
constexpr double kSlack = 0.01;

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
  const auto* rate = std::find_if(std::begin(kRates), std::end(kRates),
                                  [&](const Rate& each) { return action == each.action; });
  if (rate == std::end(kRates)) return action + " has no bucket";
  if (!take(whole_[action], rate->size, rate->refill_per_s, 1, now))
    return action + " beyond EC2's whole bucket, replays included";
  const auto [sent, first] = sent_[host].try_emplace(body);
  if (!first)
    return take(sent->second, kReplays.size, kReplays.refill_per_s, 1, now)
               ? ""
               : "the same " + action + " again and again";
  auto& buckets = buckets_[host];
  const bool within = take(buckets[action], std::max(1.0, rate->size * kShare),
                           rate->refill_per_s * kShare, 1, now);
  const bool few =
      action != "RunInstances" || take(buckets[kInstances.action], kInstances.size * kShare,
                                       kInstances.refill_per_s * kShare, instances, now);
  return within && few ? "" : action + " beyond the manager's share of its bucket";
}

std::string Spending::look(int host, const std::string& action, Instant now) {
  const bool within =
      take(looks_[host][action], kLooks.size * kShare, kLooks.refill_per_s * kShare, 1, now);
  return within ? "" : action + " beyond the manager's share of its bucket";
}

void Spending::restarted(int host) {
  buckets_.erase(host);
  looks_.erase(host);
}

}  // namespace warmroot::fleet
