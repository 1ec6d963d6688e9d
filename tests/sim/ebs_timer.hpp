// Work that is due at an instant: how thousands of FUSE requests wait without a thread each. Called
// by the FUSE side.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/sim/ebs_volume.hpp"

namespace warmroot::sim {

/// Raises the calling thread above ordinary ones and makes its sleeps exact, as far as the machine
/// allows.
void become_device_thread();

/// Thread-safe. Runs each job once, at its time or as soon as a thread is free; equal times in
/// order of scheduling.
class EbsTimer {
 public:
  using Job = std::function<void()>;

  explicit EbsTimer(unsigned threads);
  ~EbsTimer() { stop(); }
  void schedule(EbsClock::time_point due, Job job);
  /// From now on every job, waiting or new, is due at once.
  void hurry();
  /// Runs what still waits and ends the threads; idempotent.
  void stop();

 private:
  struct Entry {
    EbsClock::time_point due;
    std::uint64_t sequence;
    Job job;
  };
  static bool later(const Entry& a, const Entry& b);
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> heap_;  // the next at the front
  std::uint64_t sequence_ = 0;
  bool hurry_ = false;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace warmroot::sim
