#include "bootstrap/warm/long_batches.hpp"

#include <algorithm>
#include <cmath>

namespace warmroot::warm {
namespace {

constexpr auto kCountFor = std::chrono::seconds(1);
/// Of the known rate. 200 reads a second vary by a fourteenth.
constexpr double kFellTo = 0.7;
constexpr double kRoseTo = 1.3;
constexpr unsigned kFewest = 2;

}  // namespace

/// Counting needs no latencies, so that late ends do not spoil it.
bool LongBatches::is_over(const Moment& moment) {
  came_ += moment.came;
  if (moment.now - since_ >= kLongest) return true;
  const Time counted = moment.now - counted_from_;
  if (counted < kCountFor) return false;
  const double per_s = came_ * 1e6 / static_cast<double>(counted.count());
  counted_from_ = moment.now;
  came_ = 0;
  return per_s < kFellTo * moment.per_s || per_s > kRoseTo * moment.per_s;
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
  if (!is_on()) {
    since_ = counted_from_ = moment.now;
    came_ = 0;
  }
  return {reads, beyond};
}

}  // namespace warmroot::warm
