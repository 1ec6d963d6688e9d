// Reads a disk ahead of its mount, on a thread of its own: what finding partitions and mounting
// read one block after the other, and the head of a hot list where one is known. Nobody waits for
// it: whoever comes later finds the blocks present or on their way. Called by warming between "a
// disk is there" and "the root is mounted"; the warmer goes on with what this has read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/base/bounded_thread.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/depth_control.hpp"
#include "bootstrap/warm/warmer.hpp"

namespace warmroot::warm {

class EarlyReads {
 public:
  EarlyReads() = default;
  EarlyReads(const EarlyReads&) = delete;
  EarlyReads& operator=(const EarlyReads&) = delete;
  /// Waits as finish() does: a disk that does not answer keeps it until stop_by() has said true.
  ~EarlyReads() { finish(); }

  /// Begins with both ends of the disk, where partition tables are and mostly the root's head as
  /// well, goes on with those of each partition, and then with what its file system's mount would
  /// read; once all of that is asked for, or cannot be known, with what lookups behind the mount
  /// want. Opens the disk read-only;
  /// one that cannot be read is left alone, whoever mounts it says why. The second of two calls for
  /// one disk does nothing; another disk takes the place of the one before, unless that does not
  /// answer.
  /// At most `max_depth` reads are in flight; 0: as depth_limits has it. At most `max_mib_s` are
  /// brought in; 0: whatever the volume gives. `set_up` is called by the reading thread once all
  /// that it needs is open, as WarmRequest's is.
  void start(const std::string& device_path, unsigned max_depth = 0, unsigned max_mib_s = 0,
             std::function<void()> set_up = {});
  /// Blocks that sessions read first, in this order; read behind what the mount cannot do without,
  /// and before what the file system says will be wanted after it. Whenever that is known.
  void hot(std::vector<Block> blocks);
  /// No read is started any more, and none in flight waited for: the warmer, which comes next,
  /// finds those under way. What was read since start, in order.
  std::vector<BlockRead> finish();
  /// The same for who wants nothing of it. False when a disk that does not answer has kept the
  /// thread by then; it may still end, and can be asked again.
  bool stop_by(std::chrono::steady_clock::time_point deadline) { return thread_.stop_by(deadline); }
  /// Of those under way, once, for after finish: in the order of their numbers.
  std::vector<Block> under_way() { return std::exchange(under_way_, {}); }
  /// Whether those reads have taught that a touch does not bring its block in; for after finish,
  /// which names blocks that were read whole alone then.
  bool reads_whole() const { return reads_whole_; }
  /// What those reads have taught about depth, once; for after finish. Nothing where none was
  /// measured.
  std::optional<DepthControl> depth() { return std::exchange(depth_, std::nullopt); }

 private:
  class Loop;
  struct Bounds {
    unsigned depth = 0;
    unsigned mib_s = 0;
  };
  void run(const std::string& device_path, Bounds bounds, const std::function<void()>& set_up,
           const std::stop_token& stop);

  std::string device_path_;  // empty: nothing was begun, or it was finished
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Block> hot_;  // not taken yet
  std::vector<BlockRead> read_;
  std::vector<Block> under_way_;       // the thread's until it has ended
  std::optional<DepthControl> depth_;  // the thread's until it has ended
  bool reads_whole_ = false;           // the thread's until it has ended
  BoundedThread thread_;
};

}  // namespace warmroot::warm
