#include "bootstrap/warm/long_batches.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace warmroot::warm {
namespace {

/// A law that has changed is to be known, and the depth for it found, within a second. Batches make
/// less than eight of them too uneven, and 200 reads a second fewer reads than show anything.
constexpr auto kLookFor = std::chrono::milliseconds(200),
               kLongestLook = std::chrono::milliseconds(1000);
constexpr std::size_t kLookAt = 64;
/// Of the known rate, and of the middle read at first.
constexpr double kFellTo = 0.7;
constexpr double kRoseTo = 1.3;
constexpr double kChangedBy = 1.5;
/// Where all wait in one queue no read is quick, and none slow.
constexpr double kMoreAlike = 0.3;
/// Of the slower reads' time, as in depth control: what takes less was present before.
constexpr double kPresentBelow = 0.1;
constexpr unsigned kFewest = 2;

}  // namespace

void LongBatches::begin(Time now) {
  since_ = looked_from_ = now;
  latencies_us_.clear();
  first_.reset();
  saw_queue_ = false;
}

LongBatches::Look LongBatches::take_look(Time now) {
  auto& all = latencies_us_;
  Look look;
  look.per_s =
      static_cast<double>(all.size()) * 1e6 / static_cast<double>((now - looked_from_).count());
  std::sort(all.begin(), all.end());
  const double slower = all.empty() ? 0 : all[all.size() * 3 / 4];
  all.erase(all.begin(), std::lower_bound(all.begin(), all.end(), kPresentBelow * slower));
  if (!all.empty()) look.median_us = all[all.size() / 2];
  if (!all.empty()) look.alike = all[all.size() / 10] / all[all.size() * 9 / 10];
  looked_from_ = now;
  all.clear();
  return look;
}

/// By how many come back, for which it does not matter that they are seen late, and by how long
/// they take beside the first ones, which were seen as late.
bool LongBatches::is_another_law(const Look& look, double known_per_s) {
  if (look.per_s < kFellTo * known_per_s || look.per_s > kRoseTo * known_per_s) return true;
  if (!first_) {
    first_ = look;
    return false;
  }
  saw_queue_ = look.alike > first_->alike + kMoreAlike;
  const double ratio = look.median_us / first_->median_us;
  return saw_queue_ || ratio > kChangedBy || ratio * kChangedBy < 1;
}

bool LongBatches::is_over(const Moment& moment) {
  for (const Time took : moment.came) latencies_us_.push_back(static_cast<double>(took.count()));
  if (moment.now - since_ >= kLongest) return true;
  const Time looked = moment.now - looked_from_;
  if (looked < kLookFor || (latencies_us_.size() < kLookAt && looked < kLongestLook)) return false;
  return is_another_law(take_look(moment.now), moment.per_s);
}

LongBatches::Batch LongBatches::next(const Moment& moment) {
  const double seconds = std::chrono::duration<double>(kTime).count();
  const auto meanwhile = static_cast<unsigned>(std::lround(moment.per_s * seconds));
  const unsigned spare = moment.depth / kDepthPerBatch;
  const unsigned beyond = std::min(meanwhile - std::min(meanwhile, spare), moment.room);
  const unsigned reads = std::min(meanwhile, spare + beyond);
  const bool may = moment.quiet && moment.may_rest && reads >= kFewest;
  if (!may || (is_on() && is_over(moment))) {
    since_ = Time(-1);
    return {};
  }
  if (!is_on()) begin(moment.now);
  return {reads, beyond};
}

}  // namespace warmroot::warm
