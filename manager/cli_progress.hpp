// What a person sees while `reconcile` works: a line for each thing done and, when nothing happened
// for two seconds, a line that says what is waited for. Lines go to standard error, so that
// listings on standard output stay clean.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "manager/core/model.hpp"

namespace warmroot::manager {

/// Speaks from construction to destruction; any thread.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// "[  3.2s] text"
  void say(const std::string& text);
  /// What the next silence is about: "waiting for TEXT".
  void waiting_for(const std::string& text);
  double elapsed_s() const;

 private:
  using Clock = std::chrono::steady_clock;
  void print(const std::string& text);
  void speak_in_silence(const std::stop_token& stop);

  const Clock::time_point started_ = Clock::now();
  std::mutex mutex_;
  Clock::time_point spoken_ = started_;
  std::string waiting_for_;
  std::jthread thread_;
};

/// The nodes that are not yet as wished, with their states: "imagenet-0 launching, imagenet-1
/// creating".
std::string unsettled_nodes(const core::Plan& plan);

}  // namespace warmroot::manager
