// How far EC2 has read new volumes from their snapshots, and which snapshots need no reading: asked
// only for pools with a deadline (stock.ready_within). Part of the observer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"

namespace warmroot::manager {

/// EC2's own figures are up to five minutes old, but "completed" ends a wait.
inline constexpr Milliseconds kFillingEvery{30'000};
/// An account that may not ask is not asked again soon.
inline constexpr Milliseconds kFillingRefusedFor{300'000};
/// No volume is read for longer.
inline constexpr std::chrono::hours kFillingEnds{48};

class FillingObserver {
 public:
  /// `ec2` has to outlive the observer.
  explicit FillingObserver(aws::Ec2& ec2) : ec2_(ec2) {}

  /// Adds volume_statuses and fast_restores. Never fails: what could not be read is noted.
  void look(const core::Desired& desired, core::Observed& observed, Instant now);

 private:
  void ask_statuses(const core::Desired& desired, core::Observed& observed, Instant now);
  void ask_restores(core::Observed& observed, Instant now);

  aws::Ec2& ec2_;
  std::map<std::string, aws::VolumeStatus> statuses_;
  std::vector<aws::FastSnapshotRestore> restores_;
  Instant statuses_until_{};
  Instant restores_until_{};
};

}  // namespace warmroot::manager
