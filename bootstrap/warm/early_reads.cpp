#include "bootstrap/warm/early_reads.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/mount_reads.hpp"
#include "bootstrap/warm/own_threads.hpp"
#include "bootstrap/warm/read_engine.hpp"
#include "bootstrap/warm/read_pump.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::microseconds;

/// Most tools let the first partition begin at 1 MiB; superblock, descriptors, first bitmaps and
/// inodes are in the first 5 MiB of an ext4. Guessed, so that they need not wait for the table.
constexpr ByteRange kGuessedHead{1024 * 1024, 5 * 1024 * 1024};
/// For the thread to leave a disk for another one: a read that is there takes a millisecond.
constexpr std::chrono::seconds kAnswerLimit{1};
constexpr std::uint64_t kMib = 1024 * 1024;
/// Nobody else reads yet: a round of the mount's goes out at once.
constexpr unsigned kStartDepth = 32;
/// With a long list behind it, what fills profile B's pipe: each of the mount's four rounds would
/// wait for what more of the list is in flight.
constexpr unsigned kStartWithList = 24;
/// So short a list is in flight at once, or nearly: the queue it makes is its own, and gone before
/// the mount's next round but one. With 24 the bench's login, 46 blocks, took two rounds: 0.183 s
/// where the oracle takes 0.126.
constexpr std::size_t kShortList = 64;
/// What a hurry begins with, as one does behind the mount's last round.
constexpr unsigned kMostOfShortList = 48;

unsigned start_depth(std::size_t list_blocks) {
  if (list_blocks > kShortList) return kStartWithList;
  return std::clamp(static_cast<unsigned>(list_blocks), kStartWithList, kMostOfShortList);
}

}  // namespace

/// The thread's own state.
class EarlyReads::Loop {
 public:
  Loop(EarlyReads& owner, BlockDevice& device, ReadEngine& engine, DepthControl& control,
       RateCap cap)
      : owner_(owner),
        device_(device),
        control_(control),
        pump_(engine, control, device.size_bytes(), events(), cap, std::chrono::milliseconds(0),
              true),
        asked_(grid_blocks(device.size_bytes())),
        present_(grid_blocks(device.size_bytes())),
        again_(grid_blocks(device.size_bytes())) {}

  void run(const std::stop_token& stop) {
    stop_ = stop;
    table_ = {0, std::min(device_.size_bytes(), kPartitionTablesBytes)};
    take_hot();
    touch(std::vector<ByteRange>{table_});
    if (device_.size_bytes() > kGuessedHead.offset)
      touch(probed_places({kGuessedHead.offset, device_.size_bytes() - kGuessedHead.offset}));
    touch_behind(std::vector<ByteRange>{kGuessedHead});
    while (!stop.stop_requested()) {
      const auto done = pump_.read({}, stop);
      if (!done || *done != ReadPump::End::finished) return;
      // Of a mount of which something cannot be read no more will be asked for.
      if (ask_for_later()) continue;
      std::unique_lock lock(owner_.mutex_);
      owner_.changed_.wait(lock, stop, [this] { return !owner_.hot_.empty(); });
      lock.unlock();
      take_hot();
    }
  }

  /// Asked for, and neither there nor failed nor touched in vain.
  std::vector<Block> under_way() const {
    return asked_.difference(present_).difference(again_).members();
  }
  bool reads_whole() const { return pump_.touch_bytes() == kGridBytes; }

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
    events.not_present = [this](std::span<const Block> touched) {
      for (const Block block : touched) {
        present_.erase(block);
        again_.insert(block);
      }
      const std::lock_guard lock(owner_.mutex_);
      std::erase_if(owner_.read_,
                    [this](const BlockRead& read) { return again_.contains(read.block); });
      return std::vector<Block>{};
    };
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

  std::vector<Block> blocks_in(std::span<const ByteRange> ranges) const {
    std::vector<Block> blocks;
    for (const ByteRange& range : ranges) {
      const auto more = blocks_of(range, asked_.size());
      blocks.insert(blocks.end(), more.begin(), more.end());
    }
    return blocks;
  }

  /// In this order, before what is hot: the mount cannot do without.
  void touch(std::span<const ByteRange> ranges) {
    const auto blocks = blocks_in(ranges);
    of_mount_.insert(of_mount_.end(), blocks.begin(), blocks.end());
    pump_.prefer_to_all(blocks);
  }

  /// Behind a hot list, which has in the right order what of this will be wanted.
  void touch_behind(std::span<const ByteRange> ranges) { pump_.prefer(blocks_in(ranges)); }

  /// What will be wanted after the mount: 25 reads fill the pipe of the bench's profile B, and each
  /// of the mount's rounds would wait for what more of this is in flight.
  void keep_for_later(std::span<const ByteRange> ranges) {
    const auto blocks = blocks_in(ranges);
    later_.insert(later_.end(), blocks.begin(), blocks.end());
    later_.resize(std::min(later_.size(), ReadPump::kMostPreferred));
  }

  /// False where nothing was kept.
  bool ask_for_later() {
    pump_.prefer(later_);
    return !std::exchange(later_, {}).empty();
  }

  void take_hot() {
    std::vector<Block> hot;
    {
      const std::lock_guard lock(owner_.mutex_);
      hot = std::exchange(owner_.hot_, {});
    }
    std::erase_if(hot, [this](Block block) { return block >= asked_.size(); });
    if (hot.empty()) return;
    has_list_ = true;
    pump_.prefer_to_all(hot);
    if (mount_is_asked_for()) return;
    control_.search_from(start_depth(hot.size()));
    std::erase_if(of_mount_, [this](Block block) { return asked_.contains(block); });
    pump_.prefer_to_all(of_mount_);
  }

  bool mount_is_asked_for() const {
    return is_table_read_ &&
           std::ranges::all_of(mounts_, [](const Mount& mount) { return mount.contents.empty(); });
  }

  /// What libblkid looks at, of the disk and of each partition.
  void take_table() {
    const auto bytes = device_.read(table_);
    if (!bytes) return;
    auto partitions = partitions_of(*bytes, device_.size_bytes());
    for (const ByteRange& partition : partitions) mounts_.push_back({MountReads(partition), {}});
    for (Mount& mount : mounts_) ask(mount, {});
    partitions.push_back({0, device_.size_bytes()});
    for (const ByteRange& place : partitions) touch(probed_places(place));
  }

  void ask(Mount& mount, std::span<const std::string> contents) {
    const MountRound round = mount.reads.next(contents);
    mount.contents = round.contents;
    std::vector<ByteRange> all = round.contents;
    all.insert(all.end(), round.touches.begin(), round.touches.end());
    touch(all);
    touch_behind(round.head);
    keep_for_later(round.later);
  }

  /// Once the blocks are there, their bytes cost a warm read each. What failed is never there, and
  /// that mount goes without.
  void go_on() {
    if (!is_table_read_ && present_.contains_range(table_)) {
      take_table();
      is_table_read_ = true;
    }
    while (std::ranges::count_if(mounts_, [this](Mount& mount) { return take_round(mount); }) > 0) {
      // What one round has asked for is read while the next one's contents are.
      [[maybe_unused]] const Ok started = pump_.start_now(stop_);
    }
    if (!mount_is_asked_for()) return;
    ask_for_later();
    if (std::exchange(has_list_, false)) control_.hurry(true);
  }

  /// Asks for what comes after the mount's present round, if that is there.
  bool take_round(Mount& mount) {
    if (mount.contents.empty() || !std::ranges::all_of(mount.contents, [this](ByteRange range) {
          return present_.contains_range(range);
        }))
      return false;
    std::vector<std::string> contents;
    for (const ByteRange& range : mount.contents)
      contents.push_back(device_.read(range).value_or(std::string()));
    ask(mount, contents);
    return true;
  }

  EarlyReads& owner_;
  BlockDevice& device_;
  DepthControl& control_;
  std::stop_token stop_;
  ReadPump pump_;
  BlockSet asked_;
  BlockSet present_;
  BlockSet again_;  // were touched, and have to be read whole
  ByteRange table_;
  bool is_table_read_ = false;
  std::vector<Block> of_mount_;  // in the order in which they were wanted
  std::vector<Block> later_;     // until the mount's last round is asked for
  bool has_list_ = false;        // that is not hurried yet
  std::deque<Mount> mounts_;
};

void EarlyReads::start(const std::string& device_path, unsigned max_depth, unsigned max_mib_s,
                       std::function<void()> set_up) {
  if (device_path == device_path_) return;
  if (!thread_.stop_by(std::chrono::steady_clock::now() + kAnswerLimit)) return;
  finish();
  depth_.reset();
  under_way_.clear();
  reads_whole_ = false;
  device_path_ = device_path;
  const Bounds bounds{max_depth, max_mib_s};
  thread_.start([this, device_path, bounds, set_up = std::move(set_up)](std::stop_token stop) {
    run(device_path, bounds, set_up, stop);
  });
}

void EarlyReads::hot(std::vector<Block> blocks) {
  const std::lock_guard lock(mutex_);
  hot_ = std::move(blocks);
  changed_.notify_all();
}

std::vector<BlockRead> EarlyReads::finish() {
  thread_.stop();
  const std::lock_guard lock(mutex_);
  device_path_.clear();
  hot_.clear();
  return std::exchange(read_, {});
}

void EarlyReads::run(const std::string& device_path, Bounds bounds,
                     const std::function<void()>& set_up, const std::stop_token& stop) {
  enlist_own_thread();
  auto device = BlockDevice::open(device_path);
  if (!device) return;
  DepthLimits limits = depth_limits(bounds.depth, device->tags());
  auto engine = make_read_engine(device->fd(), limits.ceiling + ReadPump::kExtraCapacity);
  if (!engine) return;
  limits.start = std::min(limits.ceiling, kStartDepth);
  depth_.emplace(limits);
  if (set_up) set_up();
  Loop loop(*this, *device, **engine, *depth_, RateCap(bounds.mib_s * kMib));
  loop.run(stop);
  under_way_ = loop.under_way();
  reads_whole_ = loop.reads_whole();
}

}  // namespace warmroot::warm
