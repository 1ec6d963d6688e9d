// What to read next when a session has missed a block: the blocks behind it and some before it, for
// what was written together is read together: the rest of a file, the files of a package. Called by
// session_wishes with the live trace of the session's reads. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

class DemandFollow {
 public:
  /// The session reads this block, which was not known to be present. Absent blocks of `wanted`
  /// (empty: of any) that are worth reading before all else, the nearest first. The further a
  /// session goes on in the same place, the more of them: from kLeast up to kMost, or `most`.
  std::vector<Block> missed(Block block, const BlockSet& present, const BlockSet& wanted,
                            Block most = kMost);

  static constexpr Block kLeast = 16;
  static constexpr Block kMost = 64;
  /// While there is something better to read: what is recorded is known to be wanted. Misses one
  /// after the other, 28 a second of 36 ms, then take a fifth of a pipe of 300 MiB/s.
  static constexpr Block kBesideList = 4;

 private:
  struct Stream {
    Block next = 0;  ///< behind the last block that was told
    Block span = 0;
  };
  std::vector<Stream> streams_;  ///< the latest last
};

}  // namespace warmroot::warm
