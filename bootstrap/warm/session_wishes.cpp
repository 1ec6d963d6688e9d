#include "bootstrap/warm/session_wishes.hpp"

#include <algorithm>
#include <utility>

namespace warmroot::warm {
namespace {

/// A session misses a block in tens of milliseconds; looking at each read of ours costs as much CPU
/// as reading.
constexpr auto kFollowEvery = std::chrono::milliseconds(10);

}  // namespace

bool SessionWishes::start(const std::string& device_path, const std::string& mount_point,
                          std::vector<WantedFile> files,
                          std::function<std::vector<WantedFile>()> guess, bool has_list) {
  if (mount_point.empty()) return true;
  mount_point_ = mount_point;
  if (has_list) guess_ = std::exchange(guess, {});
  if (!files.empty() || guess)
    finder_.emplace(mount_point_, std::move(files), std::move(guess), lookups_);
  if (auto session =
          SessionTrace::start(device_path, mount_point, offset_bytes_, std::move(trace_place_)))
    session_.emplace(std::move(*session));
  return session_.has_value();
}

void SessionWishes::prefer(SteadyClock::time_point now, const BlockSet& present,
                           const BlockSet& wanted, bool reads_list) {
  prefer_files(present);
  if (now - last_follow_ < kFollowEvery) return;
  last_follow_ = now;
  follow_session(present, wanted, reads_list ? DemandFollow::kBesideList : DemandFollow::kMost);
}

/// Before all lists: files as they are found.
void SessionWishes::prefer_files(const BlockSet& present) {
  if (!finder_) return;
  const bool done = finder_->is_done();
  for (const FoundFile& file : finder_->take()) prefer_file(file, present);
  std::erase_if(programs_, [&](const Program& program) {
    for (const Block block : program.ends)
      if (!present.contains(block)) return false;
    finder_->read_needs(program.path, program.rank);
    return true;
  });
  if (done) finder_.reset();  // it holds the root, and no program waits
}

void SessionWishes::prefer_file(const FoundFile& file, const BlockSet& present) {
  std::vector<Block> blocks;
  for (const ByteRange& range : file.ranges)
    for (const Block block : blocks_of({offset_bytes_ + range.offset, range.length}, files_.size()))
      blocks.push_back(block);
  for (const Block block : blocks) files_.insert(block);
  if (!file.program.empty()) {
    // What it is linked with stands near its end.
    if (blocks.size() > 2) std::rotate(blocks.begin() + 1, blocks.end() - 1, blocks.end());
    const std::size_t ends = std::min<std::size_t>(blocks.size(), 2);
    programs_.push_back({file.program, file.rank, {blocks.begin(), blocks.begin() + ends}});
  }
  std::erase_if(blocks, [&](Block block) { return present.contains(block); });
  pump_.prefer(blocks, file.rank);
}

void SessionWishes::give_up(Block block) {
  std::erase_if(programs_, [&](const Program& program) {
    if (std::ranges::find(program.ends, block) == program.ends.end()) return false;
    finder_->forget_needs();
    return true;
  });
}

/// What the session waits for comes by itself; what it will want next comes before all else.
void SessionWishes::follow_session(const BlockSet& present, const BlockSet& wanted, Block most) {
  if (!session_) return;
  for (const ByteRange& read : session_->take())
    for (const Block block : blocks_of(read, present.size())) {
      if (present.contains(block) || !missed_.insert(block).second) continue;
      pump_.prefer_to_all(follow_.missed(block, present, wanted, most));
    }
  if (guess_ && !finder_ && missed_.size() >= expected_ + kForeignMisses)
    finder_.emplace(mount_point_, std::vector<WantedFile>(), std::exchange(guess_, {}), lookups_);
}

}  // namespace warmroot::warm
