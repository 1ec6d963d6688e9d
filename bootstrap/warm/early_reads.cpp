#include "bootstrap/warm/early_reads.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/mount_reads.hpp"
#include "bootstrap/warm/read_engine.hpp"
#include "bootstrap/warm/read_pump.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::microseconds;

/// Superblocks of all kinds that libblkid looks for at the start of a partition, and at its end.
constexpr std::uint64_t kEndBytes = 128 * 1024;
constexpr unsigned kCapacity = 64;
/// Nobody else reads yet: a round of the mount's goes out at once.
constexpr unsigned kStartDepth = 32;

}  // namespace

/// The thread's own state.
class EarlyReads::Loop {
 public:
  Loop(EarlyReads& owner, BlockDevice& device, ReadEngine& engine, DepthControl& control)
      : owner_(owner),
        device_(device),
        pump_(engine, control, device.size_bytes(), events(), std::chrono::milliseconds(0)),
        asked_(grid_blocks(device.size_bytes())),
        present_(grid_blocks(device.size_bytes())) {}

  void run(const std::stop_token& stop) {
    table_ = {0, std::min(device_.size_bytes(), kTableBytes)};
    touch(std::vector<ByteRange>{table_});
    while (!stop.stop_requested()) {
      const auto done = pump_.read({}, stop);
      if (!done || *done != ReadPump::End::finished) return;
      std::unique_lock lock(owner_.mutex_);
      owner_.changed_.wait(lock, stop, [this] { return !owner_.hot_.empty(); });
      lock.unlock();
      take_hot();
    }
  }

 private:
  /// One mount that is being worked out: its present round is read, then the next one asked for.
  struct Mount {
    MountReads reads;
    std::vector<ByteRange> contents;
  };

  PumpEvents events() {
    PumpEvents events;
    events.present = [this](Block block, microseconds latency) {
      present_.insert(block);
      const std::lock_guard lock(owner_.mutex_);
      owner_.read_.push_back({block, latency});
    };
    events.not_present = [](std::span<const Block>) {};  // the pump reads them whole
    events.wanted = [this](Block block) {
      if (asked_.contains(block)) return false;
      asked_.insert(block);
      return true;
    };
    events.tick = [this] {
      take_hot();
      go_on();
      return std::vector<Block>{};
    };
    return events;
  }

  /// In this order, before what is hot: the mount cannot do without.
  void touch(std::span<const ByteRange> ranges) {
    std::vector<Block> blocks;
    for (const ByteRange& range : ranges) {
      const auto more = blocks_of(range, asked_.size());
      blocks.insert(blocks.end(), more.begin(), more.end());
    }
    pump_.prefer_to_all(blocks);
  }

  void take_hot() {
    std::vector<Block> hot;
    {
      const std::lock_guard lock(owner_.mutex_);
      hot = std::exchange(owner_.hot_, {});
    }
    std::erase_if(hot, [this](Block block) { return block >= asked_.size(); });
    pump_.prefer(hot);
  }

  /// Both ends of the disk and of each partition: superblocks of all kinds, copies of tables.
  void take_table() {
    const auto bytes = device_.read(table_);
    if (!bytes) return;
    auto partitions = partitions_of(*bytes, device_.size_bytes());
    std::vector<ByteRange> ends;
    for (const ByteRange& partition : partitions) mounts_.push_back({MountReads(partition), {}});
    for (Mount& mount : mounts_) ask(mount, {});
    partitions.push_back({0, device_.size_bytes()});
    for (const ByteRange& place : partitions) {
      const std::uint64_t length = std::min(place.length, kEndBytes);
      ends.push_back({place.offset, length});
      ends.push_back({place.offset + place.length - length, length});
    }
    touch(ends);
  }

  void ask(Mount& mount, std::span<const std::string> contents) {
    const MountRound round = mount.reads.next(contents);
    mount.contents = round.contents;
    std::vector<ByteRange> all = round.contents;
    all.insert(all.end(), round.touches.begin(), round.touches.end());
    touch(all);
  }

  bool is_present(ByteRange range) const {
    for (const Block block : blocks_of(range, present_.size()))
      if (!present_.contains(block)) return false;
    return true;
  }

  /// Once the blocks are there, their bytes cost a warm read each. What failed is never there, and
  /// that mount goes without.
  void go_on() {
    if (table_.length > 0 && is_present(table_)) {
      take_table();
      table_ = {};
    }
    for (Mount& mount : mounts_) {
      while (!mount.contents.empty() &&
             std::all_of(mount.contents.begin(), mount.contents.end(),
                         [this](const ByteRange& range) { return is_present(range); })) {
        std::vector<std::string> contents;
        for (const ByteRange& range : mount.contents)
          contents.push_back(device_.read(range).value_or(std::string()));
        ask(mount, contents);
      }
    }
  }

  EarlyReads& owner_;
  BlockDevice& device_;
  ReadPump pump_;
  BlockSet asked_;
  BlockSet present_;
  ByteRange table_;  // until it has been read
  std::deque<Mount> mounts_;
};

void EarlyReads::start(const std::string& device_path, unsigned max_depth,
                       std::function<void()> set_up) {
  if (thread_.joinable() && device_path == device_path_) return;
  finish();
  depth_.reset();
  device_path_ = device_path;
  thread_ = std::jthread([this, device_path, max_depth, set_up = std::move(set_up)](
                             std::stop_token stop) { run(device_path, max_depth, set_up, stop); });
}

void EarlyReads::hot(std::vector<Block> blocks) {
  const std::lock_guard lock(mutex_);
  hot_ = std::move(blocks);
  changed_.notify_all();
}

std::vector<BlockRead> EarlyReads::finish() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  device_path_.clear();
  hot_.clear();
  return std::exchange(read_, {});
}

void EarlyReads::run(const std::string& device_path, unsigned max_depth,
                     const std::function<void()>& set_up, const std::stop_token& stop) {
  auto device = BlockDevice::open(device_path);
  if (!device) return;
  auto engine = make_read_engine(device->fd(), kCapacity);
  if (!engine) return;
  DepthLimits limits = depth_limits(max_depth, device->tags());
  limits.start = std::min(limits.ceiling, kStartDepth);
  depth_.emplace(limits);
  if (set_up) set_up();
  Loop(*this, *device, **engine, *depth_).run(stop);
}

}  // namespace warmroot::warm
