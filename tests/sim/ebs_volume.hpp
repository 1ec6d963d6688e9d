// One simulated EBS volume: its bytes (EbsDisk), its law (VolumeModel) on the server's clock, and
// its counters. Called by the FUSE side (requests) and by EbsServer (control).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "tests/sim/ebs.hpp"
#include "tests/sim/ebs_disk.hpp"
#include "tests/sim/volume_model.hpp"

namespace warmroot::sim {

using EbsClock = std::chrono::steady_clock;

/// Thread-safe. Each request says when it is to be answered; waiting is the caller's.
class EbsVolume {
 public:
  /// `epoch` is the zero of the touch log; `inode` is the file's number.
  EbsVolume(std::string id, std::uint64_t inode, std::unique_ptr<EbsDisk> disk,
            std::span<const ByteRange> snapshot_data, const VolumeProfile& profile,
            std::uint64_t seed, EbsClock::time_point epoch);

  const std::string& id() const { return id_; }
  std::uint64_t inode() const { return inode_; }
  std::uint64_t size() const { return disk_->size(); }

  /// Keeps each request for request_log() from now on.
  void log_requests();
  /// Keeps each write and flush in `log` from now on.
  void log_writes(std::shared_ptr<WriteLog> log);
  /// The number of the next open() of the file, from 1 on.
  unsigned next_opener();

  /// Starts a read; its bytes are fetched with read_bytes() when it is due.
  EbsClock::time_point begin_read(ByteRange range, unsigned opener);
  Ok read_bytes(std::uint64_t offset, std::span<char> into) const {
    return disk_->read(offset, into);
  }
  /// The bytes are in the volume at once; due is when that may be acknowledged.
  Result<EbsClock::time_point> write(std::uint64_t offset, std::span<const char> bytes,
                                     unsigned opener);
  EbsClock::time_point flush(unsigned opener);

  EbsCounters counters();
  std::vector<FirstTouch> touch_log() const;
  std::vector<DeviceRequest> request_log() const;
  void mark_attached();
  void mark_all_present();
  void set_profile(const VolumeProfile& profile);
  Result<std::uint64_t> power_cut();

 private:
  SimTime now() const { return EbsClock::now() - epoch_; }
  EbsClock::time_point note_locked(const Completion& completion, DeviceRequest request);

  const std::string id_;
  const std::uint64_t inode_;
  const std::unique_ptr<EbsDisk> disk_;
  const std::uint64_t seed_;
  const EbsClock::time_point epoch_;

  mutable std::mutex mutex_;
  VolumeModel model_;
  std::vector<FirstTouch> touch_log_;
  std::vector<DeviceRequest> request_log_;
  bool logging_ = false;
  std::shared_ptr<WriteLog> write_log_;  // may be none
  unsigned openers_ = 0;
  std::uint64_t touches_before_attach_ = 0;
  std::uint64_t reads_ = 0, writes_ = 0, flushes_ = 0, power_cuts_ = 0;
};

}  // namespace warmroot::sim
