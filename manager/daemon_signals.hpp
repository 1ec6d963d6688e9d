// Signals as callbacks of one thread: what asks the process to stop and what asks it to read its
// spec again.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

namespace warmroot::manager {

/// From construction to destruction SIGINT and SIGTERM request a stop and SIGHUP calls back; a
/// second SIGINT or SIGTERM ends the process at once with status 130. Construct before any other
/// thread, which inherits the blocked signals.
class SignalWatch {
 public:
  /// `on_stop` and `on_hangup` are called from the watch's thread.
  SignalWatch(std::function<void()> on_stop, std::function<void()> on_hangup);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  std::stop_token stop_token() const { return stop_.get_token(); }

 private:
  void watch(std::stop_token ended);

  std::function<void()> on_stop_;
  std::function<void()> on_hangup_;
  std::stop_source stop_;
  std::jthread thread_;
};

}  // namespace warmroot::manager
