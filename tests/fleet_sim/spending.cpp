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
constexpr Rate kRates[] = {{"RunInstances", 5, 2},   {"CreateVolume", 100, 5},
                           {"AttachVolume", 50, 5},  {"DetachVolume", 50, 5},
                           {"DeleteVolume", 100, 5}, {"TerminateInstances", 100, 5},
                           {"CreateTags", 100, 10},  {"DeleteTags", 100, 10},
                           {"CreateFleet", 50, 5},   {"ModifyInstanceAttribute", 50, 5}};
/// What one manager takes of an account that it shares.
constexpr double kShare = 0.5;
/// Fractions of a token that two ways of counting may differ by.
constexpr double kSlack = 0.01;

}  // namespace

bool Spending::spend(int host, const std::string& action, const std::string& body, Instant now) {
  const auto* rate = std::find_if(std::begin(kRates), std::end(kRates),
                                  [&](const Rate& each) { return action == each.action; });
  if (rate == std::end(kRates)) return true;
  if (!sent_[host].insert(body).second) return true;
  const double most = std::max(1.0, rate->size * kShare);
  auto [found, fresh] = buckets_[host].try_emplace(action, Bucket{most, now});
  Bucket& bucket = found->second;
  const double passed = static_cast<double>((now - bucket.filled).count()) / 1000;
  bucket.tokens = std::min(most, bucket.tokens + passed * rate->refill_per_s * kShare);
  bucket.filled = now;
  bucket.tokens -= 1;
  return bucket.tokens >= -kSlack;
}

void Spending::restarted(int host) {
  buckets_.erase(host);
}

}  // namespace warmroot::fleet
