// Work on a thread that nobody joins, because it may hang in the kernel for ever.
#pragma once

#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace warmroot {

/// Calls `work()` on a thread of its own. Where there is no thread to be had (a person's programs
/// may have used up all the tasks of our unit) it is called here, and takes its time.
template <typename Work>
void run_detached(Work work) {
  const auto kept = std::make_shared<Work>(std::move(work));
  try {
    std::thread([kept] { (*kept)(); }).detach();
  } catch (const std::system_error&) {
    (*kept)();
  }
}

}  // namespace warmroot
