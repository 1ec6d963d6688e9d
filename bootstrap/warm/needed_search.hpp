// Which blocks a mounted root needs, asked of its file system. The kernel answers in its own time
// (it reads each group's bitmaps or free-space tree, one block after the other), so that the warmer
// asks on a thread beside its reads. Called by needed_set; the arithmetic is needed_blocks'.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/needed_blocks.hpp"

namespace warmroot::warm {

struct NeededQuestion {
  std::string mount_point;  ///< empty: there is nobody to ask
  std::string filesystem;   ///< "ext2", "ext3", "ext4" and "xfs" say what is free
  RootGeometry geometry;
  /// Set by whoever does not want to know any more.
  std::shared_ptr<std::atomic<bool>> unwanted = std::make_shared<std::atomic<bool>>(false);
};

struct NeededAnswer {
  BlockSet blocks;
  std::string source;  ///< "fsmap", or "whole": the whole partition, for want of an answer
  std::string note;    ///< why it is the whole one, where that was not to be expected
};

/// Whether this file system can say what is free.
bool says_what_is_free(const std::string& filesystem);

/// Asks now; waits for the device. Holds the root open meanwhile.
NeededAnswer find_needed(const NeededQuestion& question);

/// On a thread of its own; where none can be had, by whoever gets the answer.
std::future<NeededAnswer> find_needed_beside(NeededQuestion question);

}  // namespace warmroot::warm
