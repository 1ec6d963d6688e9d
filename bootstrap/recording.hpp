// The hot list of this lease. What the volume brings along is read for the warmer; what the first
// sessions read is recorded, merged into it and kept on the volume for the next cold one. A thread
// of its own; only the unmount waits for it. Called by the daemon.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/warm/hot_list.hpp"
#include "bootstrap/warm/recorder.hpp"

namespace warmroot::bootstrap {

class Recording {
 public:
  /// Gets a sentence about what was kept, and where something cannot be; sessions never depend on
  /// it. Called from any thread.
  using Note = std::function<void(const std::string&)>;
  explicit Recording(Note note) : note_(std::move(note)) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() = default;

  /// Before the mount, so that what it reads is in the list: reads of this disk count from now on,
  /// but for those of our own threads beside the caller's. The second of two calls does nothing.
  void start(const std::string& disk_node);
  /// The root is mounted: files can be told, and the list that it brings along is there.
  void mounted(const std::string& mount_point, std::uint64_t partition_offset);
  /// The blocks that sessions of this volume read first, by what it brought along.
  std::vector<warm::Block> hot_blocks() const;
  /// Ends the recording and keeps it on the volume; nothing of the mount is held afterwards. False
  /// when the volume has not taken it in time; then it may be called again.
  bool finish(std::chrono::milliseconds limit);

 private:
  void run(const std::stop_token& stop);
  void save();

  Note note_;
  warm::RecordRequest request_;
  std::optional<warm::Recorder> recorder_;  // the thread's, once that runs
  std::optional<warm::HotList> brought_;
  std::future<void> ended_;
  std::jthread thread_;
};

}  // namespace warmroot::bootstrap
