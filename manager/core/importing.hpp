// How a public AMI whose snapshot may not be used becomes a snapshot of our own: launched once,
// cleaned from inside, powered off, its root snapshotted, ended. Pure: one step from what EC2 shows
// to the next call. All state is in tags, so that any later run goes on where the last one was.
// ami_import.cpp looks and calls.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "manager/core/model.hpp"

namespace warmroot::core {

/// The AMI that an instance, its root volume and the snapshot are an import of.
inline constexpr const char* kTagImport = "warmroot:import";

/// Booting and cleaning take 1 to 3 minutes; an AMI that has not powered off by then does not run
/// user-data.
inline constexpr Milliseconds kCleaningPatience{15 * 60'000};
/// A snapshot has no client token: one that an earlier run asked for may be invisible this long.
/// Source: EC2 refuses a second snapshot of one volume within 15 s
/// (SnapshotCreationPerVolumeRateExceeded), so an earlier one shows by then.
inline constexpr Milliseconds kSnapshotVisibility{15'000};

struct ImportWish {
  std::string deployment;
  std::string ami;
  std::string instance_type;  ///< empty: a small one of the AMI's architecture
  std::string subnet;         ///< empty: EC2's default
};

/// One look: by tag, terminated instances included.
struct ImportView {
  Lookup<aws::Image> image;
  bool snapshot_usable = false;  ///< the AMI's own root snapshot may be read by this account
  std::vector<aws::Instance> instances;
  std::vector<aws::Snapshot> snapshots;
};

/// What this run alone knows; nothing is lost with it but a few seconds.
struct ImportMemory {
  Instant started{};
  Instant cleaning_since{};               ///< first seen running
  std::optional<Instant> snapshot_asked;  ///< the last attempt, whatever its answer
  int tokens_used_up = 0;                 ///< launches that EC2 says are over
  /// Instances of earlier runs that were over when this one began; absent: it has not looked yet.
  std::optional<std::set<std::string>> over_before{};
};

/// Instances of imports by this deployment that have ended.
std::set<std::string> instances_over(const ImportWish& wish, const ImportView& view);

/// The one that is there, or nullptr.
const aws::Instance* live_instance(const ImportWish& wish, const ImportView& view);

/// Empty while EC2 does not show it.
std::string root_volume_of(const aws::Instance& instance);

struct ImportStep {
  enum class Stage { refused, launching, cleaning, snapshotting, ending, done, failed };
  Stage stage = Stage::launching;
  std::optional<aws::Mutation> call;
  std::string text;         ///< what is being waited for, or why it ended
  std::string snapshot_id;  ///< once known
};

ImportStep next_import_step(const ImportWish& wish, const ImportView& view,
                            const ImportMemory& memory, Instant now);

/// What it takes and costs, said before anything is launched.
std::string import_terms(const ImportWish& wish, const aws::Image& image);

/// The script that makes the system anonymous and powers it off.
std::string import_user_data();

}  // namespace warmroot::core
