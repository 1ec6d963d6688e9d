#include "bootstrap/warm/own_threads.hpp"

#include <unistd.h>

#include <mutex>
#include <string>

namespace warmroot::warm {
namespace {

struct Enlisted {
  std::mutex mutex;
  std::set<pid_t> threads;
};

/// Never destroyed: detached threads may outlive main.
Enlisted& enlisted() {
  static auto* all = new Enlisted;
  return *all;
}

bool is_enlisted(pid_t thread) {
  auto& all = enlisted();
  const std::lock_guard lock(all.mutex);
  return all.threads.contains(thread);
}

}  // namespace

void enlist_own_thread() {
  auto& all = enlisted();
  const std::lock_guard lock(all.mutex);
  all.threads.insert(::gettid());
}

bool OwnThreads::contains(pid_t thread) {
  if (known_.contains(thread) || is_enlisted(thread)) return true;
  if (::access(("/proc/self/task/" + std::to_string(thread)).c_str(), F_OK) != 0) return false;
  known_.insert(thread);
  return true;
}

}  // namespace warmroot::warm
