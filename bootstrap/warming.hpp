// Warming of one lease, from "a disk is likely" to the release: early reads, the lists that the
// manager has of the volume, the recording of what sessions read, and the warmer behind the mount.
// Sessions depend on none of it: what fails is a note. Called by the daemon.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/bounded_thread.hpp"
#include "bootstrap/base/log.hpp"
#include "bootstrap/recording.hpp"
#include "bootstrap/report.hpp"
#include "bootstrap/status.hpp"
#include "bootstrap/ticket.hpp"
#include "bootstrap/volume_blocks.hpp"
#include "bootstrap/warm/early_reads.hpp"
#include "bootstrap/warm/warmer.hpp"

namespace warmroot::bootstrap {

/// made_from, sessions_open and tell_asked are called by any thread, the rest by one. Each step of
/// a lease once, but disk_likely, sessions_open, tell_asked, request_stop and stop.
class Warming {
 public:
  /// `enter` gets Stage::warming when sessions are open, and Stage::warm behind it; from any
  /// thread.
  Warming(const Ticket& ticket, StatusBook& book, Reporter& reporter,
          std::function<void(Stage)> enter)
      : ticket_(ticket), book_(book), reporter_(reporter), enter_(std::move(enter)) {}
  Warming(const Warming&) = delete;
  Warming& operator=(const Warming&) = delete;
  ~Warming() = default;

  /// The manager says what the volume was made from.
  void made_from(const std::string& volume_id, const std::string& snapshot_id) {
    volume_blocks_.made_from(volume_id, snapshot_id);
    recording_.made_from(volume_id, snapshot_id);
  }

  /// This volume was mounted by a daemon that was killed; it may be given back without being
  /// warmed here. Empty: nobody knows its id.
  void taken_over(const std::string& volume_id);
  /// No disk is there yet: for what would keep its mount waiting.
  void before_disk();
  /// This disk ("/dev/nvme1n1") may be the volume; the next call may name another.
  void disk_likely(const std::string& disk_node);
  /// The root is about to be mounted: what is read from now on is recorded.
  void disk_checked(const std::string& disk_node);
  /// The root is mounted at kVolumePoint: the warmer begins.
  void root_mounted(const Assignment& assignment);
  /// From now on the manager hears about warming; anew where sessions had left the volume.
  void sessions_open();

  /// What `record` was asked for last on this volume goes to the manager, as soon as that hears of
  /// the volume again: to be called now and then. Nothing before root_mounted or taken_over. Reads
  /// nothing of the volume, and may be called when that is gone.
  void tell_asked();

  /// Nobody but people runs programs of the volume's any more.
  void logins_tried() { recording_.logins_tried(); }

  /// No read of the warmer is started any more. Does not wait.
  void request_stop() { warmer_.request_stop(); }
  /// Ends all of it; nothing of the mount is held afterwards. False when something has not ended in
  /// time, as on a volume that does not answer; it may still, and is asked again by another call.
  bool stop(std::chrono::milliseconds limit);

 private:
  void ask_for_list(const std::string& disk_node);
  void ask_for_block_list();
  void start_warmer(const Assignment& assignment);
  void confine();
  void hear_of_list_later(warm::WarmRequest& request, std::uint64_t device_bytes);
  void warm_up(warm::WarmRequest request, std::stop_token token);
  void tell_warm(bool is_warm, bool has_ended);
  void send_asked();

  const Ticket& ticket_;
  StatusBook& book_;
  Reporter& reporter_;
  const std::function<void(Stage)> enter_;
  std::string likely_disk_;
  std::atomic_flag told_unconfined_;
  std::mutex mutex_;
  bool ready_ = false, warmed_ = false, warmer_done_ = false;  ///< tell_warm's
  std::string volume_id_;      ///< whose lists are sent; empty: nobody knows it; under mutex_
  bool asked_is_out_ = false;  ///< to the manager, which has not answered; under mutex_
  unsigned asked_sent_ = 0;    ///< so many were; under mutex_
  std::chrono::steady_clock::time_point asked_again_;  ///< it hears nothing before; under mutex_
  warm::EarlyReads early_;
  VolumeBlocks volume_blocks_;
  std::future<void> list_answered_;
  Recording recording_{[this](const std::string& text) {
                         log_event(LogLevel::notice, "hot list", {{"what", text}});
                         book_.update([&](Status& status) { status.hot_list = text; });
                       },
                       [this](std::string list, bool so_far, const Recording::Taken& taken) {
                         if (ticket_.manager_url.empty()) return taken(true);
                         reporter_.exchange(
                             "POST", so_far ? "/v1/hot-list?so-far=1" : "/v1/hot-list",
                             std::move(list),
                             [taken](const auto& answer) { taken(answer.has_value()); });
                       }};
  BoundedThread warmer_;  ///< last, so that it ends first
};

}  // namespace warmroot::bootstrap
