// `warmroot ami import`: looks, takes the next step of core/importing.hpp, and says what is waited
// for. Called once a second by cli_import.cpp; holds no state that a later run would miss.
#pragma once

#include <functional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/core/importing.hpp"

namespace warmroot::manager {

class AmiImport {
 public:
  /// `ec2` outlives the import.
  AmiImport(aws::Ec2& ec2, core::ImportWish wish, Instant now);

  /// What it takes and costs. Errors: as those of EC2; misconfigured when there is no such AMI.
  Result<std::string> terms();

  /// What the next step would be; changes nothing. Errors: as those of EC2.
  Result<core::ImportStep> look_ahead(Instant now);

  /// One look and at most one call. Errors: what EC2 refused for good; the import may be run again.
  Result<core::ImportStep> step(Instant now);

  /// The instance that was there at the last look; empty: none. It is paid for until a later run,
  /// or people, end it.
  const std::string& left_behind() const { return left_behind_; }

 private:
  Result<core::ImportView> look();
  Ok look_at_source(core::ImportView& view);
  Ok send(const core::ImportStep& step, Instant now);
  bool waits_to_launch(const core::ImportStep& step, Instant now) const;
  void try_snapshot(const core::ImportView& view);
  core::ImportStep end_for_nothing() const;

  aws::Ec2& ec2_;
  core::ImportWish wish_;
  core::ImportMemory memory_;
  std::string left_behind_;
  bool snapshot_tried_ = false;
  bool snapshot_denied_ = false;
  int launches_refused_ = 0;  ///< in a row
  Instant launch_again_{};
  std::string why_waiting_;  ///< what EC2 answered to the last call, when that may pass
  std::optional<core::ImportView> source_;  ///< image and its snapshot, looked up once
};

/// True while the import goes on.
bool goes_on(core::ImportStep::Stage stage);

}  // namespace warmroot::manager
