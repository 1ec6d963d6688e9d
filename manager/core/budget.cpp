// Bucket sizes are EC2's defaults. Source: EC2 developer guide, "Request throttling for the Amazon
// EC2 API".
#include "manager/core/budget.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace warmroot::core {

namespace {

struct Rate {
  const char* action;
  double capacity;
  double refill_per_s;
};

/// Of a bucket that is waited for.
constexpr double kNearlyFull = 0.8;

constexpr Rate kRates[] = {
    {"RunInstances", 5, 2},          {"CreateVolume", 100, 5},
    {"AttachVolume", 50, 5},         {"DetachVolume", 50, 5},
    {"DeleteVolume", 100, 5},        {"TerminateInstances", 100, 5},
    {"CreateTags", 100, 10},         {"DeleteTags", 100, 10},
    {"CreateFleet", 50, 5},          {"CreateLaunchTemplate", 50, 5},
    {"DeleteLaunchTemplate", 50, 5}, {"ModifyInstanceAttribute", 50, 5},
    {"CopyVolumes", 50, 5},          {"CreateSnapshot", 100, 5},
    {"StopInstances", 50, 5},        {kInstancesLaunched.data(), 1000, 2},
};

}  // namespace

Budget::Budget(double share) {
  for (const auto& rate : kRates) {
    const double capacity =
        std::max(1.0, rate.capacity * share);  // below one nothing would ever go out
    buckets_[rate.action] = {capacity, rate.refill_per_s * share, capacity, Instant{}, 0, 0};
  }
}

void Budget::fill(Bucket& bucket, Instant now) const {
  if (now <= bucket.filled) return;  // a clock stepped back gives nothing
  const double seconds = std::chrono::duration<double>(now - bucket.filled).count();
  // A call on its way may not have reached EC2 yet, whose bucket is then that much fuller.
  const double most = std::max(bucket.tokens, bucket.capacity - bucket.in_flight);
  const double filled = bucket.tokens + seconds * bucket.refill_per_s;
  if (bucket.in_flight > 0) bucket.held += std::max(0.0, filled - most);
  bucket.tokens = std::min(most, filled);
  bucket.filled = now;
}

std::map<std::string, int, std::less<>> Budget::available(Instant now) {
  std::map<std::string, int, std::less<>> calls;
  for (auto& [action, bucket] : buckets_) {
    fill(bucket, now);
    calls[action] = std::max(0, static_cast<int>(std::floor(bucket.tokens)));
  }
  return calls;
}

void Budget::spend(std::string_view action, Instant now, int count) {
  const auto found = buckets_.find(action);
  if (found == buckets_.end()) return;
  fill(found->second, now);
  found->second.tokens -= count;
  found->second.in_flight += count;
}

void Budget::answered(std::string_view action, Instant sent, Instant now, int count) {
  const auto found = buckets_.find(action);
  if (found == buckets_.end()) return;
  auto& bucket = found->second;
  fill(bucket, now);
  bucket.in_flight = std::max(0, bucket.in_flight - count);
  if (bucket.in_flight > 0) return;
  const double seconds = std::chrono::duration<double>(now - sent).count() / 2;
  const double back = std::min(std::exchange(bucket.held, 0), seconds * bucket.refill_per_s);
  bucket.tokens = std::min(bucket.capacity, bucket.tokens + back);
}

void Budget::throttled(std::string_view action, Instant sent, Instant now) {
  const auto found = buckets_.find(action);
  if (found == buckets_.end()) return;
  auto& bucket = found->second;
  fill(bucket, now);
  const double seconds = std::chrono::duration<double>(now - sent).count() / 2;
  bucket.tokens = std::min(bucket.tokens + 1, seconds * bucket.refill_per_s);
}

void Budget::may_be_left(std::string_view things, Instant now, int count) {
  const auto found = buckets_.find(things);
  if (found == buckets_.end()) return;
  fill(found->second, now);
  found->second.tokens = std::min(found->second.capacity, found->second.tokens + count / 2);
}

void Budget::passed_over(std::string_view action, Instant now) {
  const auto found = buckets_.find(action);
  if (found == buckets_.end()) return;
  auto& bucket = found->second;
  fill(bucket, now);
  bucket.tokens = std::min(bucket.capacity, bucket.tokens + 1);
}

Milliseconds Budget::wait_for(std::string_view action, Instant now, int tokens) {
  const auto found = buckets_.find(action);
  if (found == buckets_.end()) return Milliseconds{0};
  fill(found->second, now);
  // A bucket that is full while its calls are on their way refills nothing.
  const double most = std::max(1.0, std::floor(found->second.capacity * kNearlyFull));
  const double wanted = std::min(static_cast<double>(tokens), most);
  const double missing = wanted - found->second.tokens;
  if (missing <= 0) return Milliseconds{0};
  return Milliseconds{
      static_cast<Milliseconds::rep>(std::ceil(missing / found->second.refill_per_s * 1000.0))};
}

}  // namespace warmroot::core
