// A heap of due times served by a few threads. See the header.
#include "tests/sim/ebs_timer.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>

namespace warmroot::sim {

void become_device_thread() {
  // A device does not compete with its reader for a processor. Where this is not allowed, times are
  // less exact.
  sched_param parameters{};
  parameters.sched_priority = 1;
  ::pthread_setschedparam(::pthread_self(), SCHED_RR, &parameters);
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL,
          0UL);  // the default of 50 us would add to every warm read
}

EbsTimer::EbsTimer(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

bool EbsTimer::later(const Entry& a, const Entry& b) {
  return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
}

void EbsTimer::schedule(EbsClock::time_point due, Job job) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    heap_.push_back({due, sequence_++, std::move(job)});
    std::ranges::push_heap(heap_, later);
    first = heap_.front().sequence == sequence_ - 1;
  }
  // Threads sleep until the front's time: only a new front needs one of them earlier.
  if (first) changed_.notify_one();
}

void EbsTimer::hurry() {
  {
    const std::lock_guard lock(mutex_);
    hurry_ = true;
  }
  changed_.notify_all();
}

void EbsTimer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void EbsTimer::run() {
  become_device_thread();
  std::unique_lock lock(mutex_);
  while (true) {
    if (heap_.empty()) {
      if (stopping_) return;
      changed_.wait(lock);
      continue;
    }
    const EbsClock::time_point due = heap_.front().due;
    if (!stopping_ && !hurry_ && EbsClock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    std::ranges::pop_heap(heap_, later);
    const Job job = std::move(heap_.back().job);
    heap_.pop_back();
    if (!heap_.empty())
      changed_.notify_one();  // the next one's time is another thread's while this one works
    lock.unlock();
    job();
    lock.lock();
  }
}

}  // namespace warmroot::sim
