#include "bootstrap/warm/needed_search.hpp"

#include <fcntl.h>

#include <utility>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/fsmap.hpp"
#include "bootstrap/warm/own_threads.hpp"

namespace warmroot::warm {

bool says_what_is_free(const std::string& filesystem) {
  return filesystem.starts_with("ext") || filesystem == "xfs";
}

NeededAnswer find_needed(const NeededQuestion& question) {
  RootGeometry geometry = question.geometry;
  NeededAnswer answer;
  answer.source = "whole";
  std::vector<ByteRange> free;
  if (says_what_is_free(question.filesystem) && !question.mount_point.empty()) {
    const UniqueFd root(::open(question.mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto ranges = root ? free_ranges(root.get(), question.unwanted.get())
                       : Result<std::vector<ByteRange>>(fail_errno(question.mount_point));
    if (ranges) {
      free = std::move(*ranges);
      answer.source = "fsmap";
    } else {
      answer.note = "the whole partition is read: " + ranges.error().message();
    }
  }
  // A partition may be larger than its file system, and then hold anything.
  if (answer.source == "whole") geometry.fs_bytes = 0;
  answer.blocks = needed_blocks(geometry, free);
  return answer;
}

std::future<NeededAnswer> find_needed_beside(NeededQuestion question) {
  // Where there is no thread to be had, the caller's is one of ours already.
  return std::async(std::launch::async | std::launch::deferred, [question = std::move(question)] {
    enlist_own_thread();
    return find_needed(question);
  });
}

}  // namespace warmroot::warm
