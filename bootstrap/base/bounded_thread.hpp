// A thread whose end is waited for only so long: what it does may hang in the kernel, where nobody
// can end it.
#pragma once

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace warmroot {

class BoundedThread {
 public:
  /// `work(std::stop_token)` on a thread of its own; again only when that has ended.
  template <typename Work>
  void start(Work work) {
    std::promise<void> ended;
    ended_ = ended.get_future();
    thread_ = std::jthread(
        [work = std::move(work), ended = std::move(ended)](std::stop_token token) mutable {
          work(std::move(token));
          ended.set_value();
        });
  }
  bool started() const { return ended_.valid(); }
  void request_stop() { thread_.request_stop(); }
  /// Asks it to stop and waits for that, however long it takes.
  void stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }
  /// Asks it to stop. False when it has not ended by then; it may still, and can be asked again.
  bool stop_by(std::chrono::steady_clock::time_point deadline) {
    thread_.request_stop();
    if (!thread_.joinable()) return true;
    if (ended_.wait_until(deadline) != std::future_status::ready) return false;
    thread_.join();
    return true;
  }

 private:
  std::future<void> ended_;
  std::jthread thread_;
};

}  // namespace warmroot
