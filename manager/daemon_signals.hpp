// Signals as state that loops ask for: a stop that was requested, and a hang-up that asks to read
// the spec again.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace warmroot::manager {

/// From construction to destruction SIGINT and SIGTERM request a stop and SIGHUP is remembered; a
/// second SIGINT or SIGTERM ends the process at once with status 130. Construct before any other
/// thread, which inherits the blocked signals.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  std::stop_token stop_token() const { return stop_.get_token(); }
  bool hangup_pending() const { return hangup_; }
  /// True once for all hang-ups since the last call.
  bool take_hangup() { return hangup_.exchange(false); }

 private:
  void watch(const std::stop_token& ended);

  std::stop_source stop_;
  std::atomic<bool> hangup_ = false;
  std::jthread thread_;
};

}  // namespace warmroot::manager
