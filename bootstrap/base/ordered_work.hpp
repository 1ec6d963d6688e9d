// Work that may hang in the kernel for ever, as on a disk that does not answer, and of which no
// piece may overtake another.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "bootstrap/base/detached.hpp"

namespace warmroot {

/// From any thread. What was asked for is done also when this is gone by then.
class OrderedWork {
 public:
  /// `work`, which keeps nothing of its caller's, is done behind all that was asked for before.
  void ask(std::function<void()> work) {
    {
      const std::lock_guard lock(line_->mutex);
      line_->waiting.push_back(std::move(work));
      if (std::exchange(line_->runs, true)) return;
    }
    run_detached([line = line_] { do_all(*line); });
  }

  /// Until nothing is left to do, at most so long; false where something is.
  bool wait_for(std::chrono::milliseconds limit) const {
    std::unique_lock lock(line_->mutex);
    return line_->done.wait_for(lock, limit, [this] { return !line_->runs; });
  }

 private:
  struct Line {
    std::mutex mutex;
    std::condition_variable done;
    std::deque<std::function<void()>> waiting;
    bool runs = false;
  };

  static void do_all(Line& line) {
    std::unique_lock lock(line.mutex);
    while (!line.waiting.empty()) {
      const std::function<void()> work = std::move(line.waiting.front());
      line.waiting.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
    line.runs = false;
    line.done.notify_all();
  }

  const std::shared_ptr<Line> line_ = std::make_shared<Line>();
};

}  // namespace warmroot
