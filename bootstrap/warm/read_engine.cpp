// The choice of an engine, and the pool of threads that stands in for io_uring.
#include "bootstrap/warm/read_engine.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "bootstrap/base/free_deleter.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/own_threads.hpp"

namespace warmroot::warm {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// What the threads share. They own it together with the engine: a thread whose pread hangs for a
/// minute must not keep the warmer from ending.
struct Pool {
  struct Job {
    ReadRequest request;
    SteadyClock::time_point start;
  };

  std::mutex mutex;
  std::condition_variable work;
  std::condition_variable ended;
  std::deque<Job> jobs;
  std::vector<ReadResult> results;
  unsigned idle = 0;
  std::size_t batch = 1;  ///< so many results are waited for
  bool closing = false;
  UniqueFd fd;
};

ReadResult perform(int fd, void* buffer, const Pool::Job& job) {
  ssize_t count = -1;
  do {
    count = ::pread(fd, buffer, job.request.length, static_cast<off_t>(job.request.offset));
  } while (count < 0 && errno == EINTR);
  int error = 0;
  if (count < 0)
    error = errno;
  else if (static_cast<std::size_t>(count) < job.request.length)
    error = EIO;
  const auto latency = SteadyClock::now() - job.start;
  return {job.request.tag, error, std::chrono::duration_cast<std::chrono::microseconds>(latency)};
}

void serve(const std::shared_ptr<Pool>& pool) {
  enlist_own_thread();
  const std::unique_ptr<void, FreeDeleter> buffer(std::aligned_alloc(kTouchBytes, kPieceBytes));
  CHECK(buffer != nullptr);
  std::unique_lock lock(pool->mutex);
  for (;;) {
    ++pool->idle;
    pool->work.wait(lock, [&] { return pool->closing || !pool->jobs.empty(); });
    --pool->idle;
    if (pool->closing) return;
    const Pool::Job job = pool->jobs.front();
    pool->jobs.pop_front();
    lock.unlock();
    const ReadResult result = perform(pool->fd.get(), buffer.get(), job);
    lock.lock();
    pool->results.push_back(result);
    if (pool->results.size() >= pool->batch) pool->ended.notify_one();
  }
}

class PreadEngine : public ReadEngine {
 public:
  using ReadEngine::wait;
  PreadEngine(int fd, unsigned capacity) : capacity_(capacity), pool_(std::make_shared<Pool>()) {
    pool_->fd.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  PreadEngine(const PreadEngine&) = delete;
  PreadEngine& operator=(const PreadEngine&) = delete;
  ~PreadEngine() override {
    const std::lock_guard lock(pool_->mutex);
    pool_->closing = true;
    pool_->work.notify_all();
  }

  std::string_view name() const override { return "pread"; }
  unsigned capacity() const override { return capacity_; }
  unsigned in_flight() const override { return in_flight_; }

  Ok submit(std::span<const ReadRequest> requests) override {
    CHECK(requests.size() <= capacity_ - in_flight_);
    const auto now = SteadyClock::now();
    const std::lock_guard lock(pool_->mutex);
    for (const ReadRequest& request : requests) {
      pool_->jobs.push_back({request, now});
      ++in_flight_;
    }
    unsigned starting = 0;  // not idle yet, and free all the same
    while (threads_ < capacity_ && pool_->jobs.size() > pool_->idle + starting && start_thread())
      ++starting;
    for (std::size_t i = 0; i < requests.size(); ++i) pool_->work.notify_one();
    if (threads_ == 0) return fail(ErrorKind::broken, "no thread could be started for reads");
    return {};
  }

  Ok wait(std::chrono::milliseconds timeout, std::vector<ReadResult>& results, unsigned batch,
          std::chrono::milliseconds batch_time) override {
    std::unique_lock lock(pool_->mutex);
    if (in_flight_ == 0) return {};
    const auto have_ended = [&] { return pool_->results.size() >= pool_->batch; };
    // For a batch first: mostly that is the one time that this thread is woken.
    pool_->batch = std::min(std::max(1U, batch), in_flight_);
    const auto first = pool_->batch > 1 ? std::min(timeout, batch_time) : timeout;
    pool_->ended.wait_for(lock, first, have_ended);
    if (pool_->results.empty() && timeout > first) {
      pool_->batch = 1;
      pool_->ended.wait_for(lock, timeout - first, have_ended);
    }
    in_flight_ -= static_cast<unsigned>(pool_->results.size());
    results.insert(results.end(), pool_->results.begin(), pool_->results.end());
    pool_->results.clear();
    return {};
  }

 private:
  /// False where the system gives no more threads; fewer than wanted still read.
  bool start_thread() {
    try {
      std::thread(serve, pool_).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++threads_;
    return true;
  }

  unsigned capacity_;
  std::shared_ptr<Pool> pool_;
  unsigned in_flight_ = 0;
  unsigned threads_ = 0;
};

}  // namespace

std::unique_ptr<ReadEngine> make_pread_engine(int fd, unsigned capacity) {
  return std::make_unique<PreadEngine>(fd, capacity);
}

Result<std::unique_ptr<ReadEngine>> make_read_engine(int fd, unsigned capacity,
                                                     EngineChoice choice) {
  if (choice != EngineChoice::pread) {
    auto ring = make_uring_engine(fd, capacity);
    if (ring || choice == EngineChoice::io_uring) return ring;
  }
  return make_pread_engine(fd, capacity);
}

}  // namespace warmroot::warm
