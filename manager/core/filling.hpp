// How a new volume gets its blocks: for nothing and slowly, at a paid rate, as a copy of a volume
// that has them, or by fast snapshot restore. Pure arithmetic over stated facts; stocking.cpp
// gathers them and makes the call.
#pragma once

#include <optional>
#include <string>

#include "bootstrap/base/units.hpp"

namespace warmroot::core {

/// EC2 reads a new volume's blocks from S3 in the background at a rate that it does not state and
/// calls fluctuating; nobody has published a measurement. Taken is the slowest figure published for
/// one foreground reader, so that the estimate is rather too long (reference/warming.md 1.2).
inline constexpr int kFreeMibS = 5;
/// VolumeInitializationRate: its bounds, the step at which the price changes, the Region's sum.
/// Source: EBS user guide, initialize-volume.
inline constexpr int kLeastRateMibS = 100;
inline constexpr int kCheaperRateMibS = 200;
inline constexpr int kMostRateMibS = 300;
inline constexpr int kRegionRateMibS = 5'000;
/// USD for each GiB of the snapshot, us-east-1: up to 200 MiB/s and above. Source: runs-on/snapshot
/// README; 0.0036 agrees with two more reports (reference/warming.md 1.4).
inline constexpr double kCheaperRateUsdGib = 0.0024;
inline constexpr double kMostRateUsdGib = 0.0036;
/// A copy answers with a warm volume's latency as soon as it is available. Source: EBS user guide,
/// ebs-copying-volume ("within seconds").
inline constexpr Milliseconds kAvailableAfter{10'000};
/// Until a copy has all blocks itself, its source gives no other: up to 6 h for the first TiB.
inline constexpr Milliseconds kCopyPerGib{6 * 3'600'000 / 1024};
/// Copies in progress in a Region by default. Source: EBS user guide.
inline constexpr int kCopiesInRegion = 5;

enum class FillWay {
  free,          ///< CreateVolume alone
  fast_restore,  ///< the same, of a snapshot with fast restore on and a credit left
  rate,          ///< CreateVolume with a paid VolumeInitializationRate
  copy,          ///< CopyVolumes from the golden volume
};

struct FillFacts {
  int data_gib = 0;  ///< to be read; the snapshot's size where no better is known
  bool fast_restore = false;
  int rate_left_mib_s = 0;  ///< of what the Region allows; 0 also when EC2 has refused it
  /// When the golden volume's next copy may begin; absent: there is none, it is not warm, or EC2
  /// has refused the copy.
  std::optional<Milliseconds> copy_after;
  std::optional<double> copy_usd_gib;  ///< absent: not known
};

struct Fill {
  FillWay way = FillWay::free;
  int rate_mib_s = 0;               ///< of FillWay::rate
  Milliseconds start_in{0};         ///< the call may be made after this
  Milliseconds ready_in{0};         ///< estimate, from now
  std::optional<double> price_usd;  ///< once, beyond the volume's own; absent: not known
  bool in_time = true;
  std::string why;  ///< half a sentence for people: way, time, price and what was compared
};

/// The cheapest way that is ready within `deadline`, the faster of equals. A copy at an unknown
/// price is taken only when nothing with a known price is in time; when nothing is, the fastest.
/// Zero: no deadline, nothing is paid for.
Fill choose_fill(const FillFacts& facts, Milliseconds deadline);

/// "0.02 USD", "41 s", "27 min": as people read them.
std::string money_text(double usd);
std::string duration_text(Milliseconds duration);

}  // namespace warmroot::core
