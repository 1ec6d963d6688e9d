// The bootstrap's state as one document: what `status` prints, what reports carry, what people look
// at when something went wrong. StatusBook is its one owner, shared by the daemon's threads;
// documents.cpp turns it into JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/node_stage.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/ebs_statistics.hpp"
#include "bootstrap/warm/warm_progress.hpp"

namespace warmroot::bootstrap {

using Stage = NodeStage;

enum class Outcome { ok, failed, skipped };
std::string_view to_string(Outcome outcome);

struct TimedStep {
  std::string name;
  std::int64_t start_ms = 0;  ///< since the start of `up`, CLOCK_BOOTTIME
  std::int64_t ms = 0;
  Outcome outcome = Outcome::ok;
  std::string detail;
};

struct Status {
  std::string instance_id, deployment, pool, device, filesystem, message, volume_os, base_os;
  std::string root;                  ///< which partition is the root, and why
  std::string dirty_bound;           ///< one sentence: what of the volume may be dirty in memory
  std::string entry;                 ///< one sentence: how sessions get in, and why not otherwise
  std::string hot_list;              ///< one sentence: what is recorded of what sessions read first
  std::vector<std::string> remarks;  ///< what differs from a machine of the volume's own
  std::optional<std::string> node, volume_id;
  std::optional<std::string> rebalance;  ///< since when EC2 recommends to replace the instance
  Stage stage = Stage::hello;
  std::vector<TimedStep> steps;
  std::optional<std::int64_t> disk_visible_to_mounted_ms, mounted_to_ready_ms;
  warm::WarmProgress warm;
  std::optional<EbsStatistics> ebs;  ///< absent where the device does not tell
};

/// Thread-safe. The status file and that of the metrics are replaced atomically: at once when the
/// stage or the message changes, for anything else by the next change that comes a while after the
/// last write (in the daemon a ticker makes one each second). On the way to the first session
/// dozens of steps follow each other within milliseconds, and a write takes one.
class StatusBook {
 public:
  static constexpr std::chrono::milliseconds kRest{100};

  /// Files may be empty: nothing is written.
  explicit StatusBook(std::string file, std::string metrics_file = {},
                      std::chrono::milliseconds rest = kRest);

  void update(const std::function<void(Status&)>& change);
  /// What was not written yet.
  void write();
  Status snapshot() const;

  /// Runs `work`, which returns a detail for the timeline, and records how long it took and how it
  /// ended.
  Result<std::string> timed(const std::string& name,
                            const std::function<Result<std::string>()>& work);
  void record(TimedStep step);
  /// Takes the latest steps back, until `count` are left.
  void forget_steps_after(std::size_t count);
  /// `heard` is called after each step that was recorded, by the thread that recorded it. To be set
  /// before other threads use the book.
  void on_step(std::function<void()> heard) { heard_ = std::move(heard); }
  /// Milliseconds since the start of `up`.
  std::int64_t now_ms() const;

 private:
  void write_locked();
  const std::string file_, metrics_file_;
  const std::int64_t started_ms_, rest_ms_;
  mutable std::mutex mutex_;
  Status status_;
  std::optional<std::int64_t> written_ms_;  ///< since the start of `up`
  std::function<void()> heard_;             ///< may be empty
};

}  // namespace warmroot::bootstrap
