#include "bootstrap/warm/session_wishes.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "bootstrap/warm/own_threads.hpp"

namespace warmroot::warm {
namespace {

/// A session misses a block in tens of milliseconds; looking at each read of ours costs as much CPU
/// as reading.
constexpr auto kFollowEvery = std::chrono::milliseconds(10);

}  // namespace

void SessionWishes::start(const std::string& device_path, const std::string& mount_point,
                          std::vector<WantedFile> files, WantedGuess guess, bool has_list) {
  if (mount_point.empty()) return;
  mount_point_ = mount_point;
  if (has_list) guess_ = std::exchange(guess, {});
  look_up(std::move(files), std::move(guess));
  // It takes the kernel tens of milliseconds to set up. Where there is no thread to be had, the
  // caller's is one of ours already.
  trace_ = std::async(std::launch::async | std::launch::deferred,
                      [device_path, mount_point, offset = offset_bytes_, reader = ::gettid(),
                       place = std::move(trace_place_)]() mutable {
                        enlist_own_thread();
                        return SessionTrace::start(device_path, mount_point, offset,
                                                   std::move(place), reader);
                      });
}

void SessionWishes::look_up(std::vector<WantedFile> files, WantedGuess guess) {
  if (guess.names)
    for (WantedFile& file : guess.names()) files.push_back(std::move(file));
  if (!files.empty() || guess.of_root)
    finder_.emplace(mount_point_, std::move(files), std::move(guess.of_root), lookups_);
}

void SessionWishes::prefer(SteadyClock::time_point now, const BlockSet& present,
                           const BlockSet& wanted, bool reads_list) {
  prefer_files(present);
  if (now - last_follow_ < kFollowEvery) return;
  last_follow_ = now;
  follow_session(now, present, wanted,
                 reads_list ? DemandFollow::kBesideList : DemandFollow::kMost);
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

void SessionWishes::end() {
  stop_lookups();
  finder_.reset();
  programs_.clear();
  trace_ = {};
  session_.reset();
}

void SessionWishes::take_trace() {
  if (!trace_.valid() ||
      trace_.wait_for(std::chrono::milliseconds(0)) == std::future_status::timeout)
    return;
  if (auto trace = trace_.get())
    session_.emplace(std::move(*trace));
  else
    on_note_("what sessions miss is not followed: the kernel shows no trace of reads");
}

/// What the session waits for comes by itself; what it will want next comes before all else.
void SessionWishes::follow_session(SteadyClock::time_point now, const BlockSet& present,
                                   const BlockSet& wanted, Block most) {
  take_trace();
  if (!session_) return;
  if (!at_rest_since_) at_rest_since_ = now;
  for (const ByteRange& read : session_->take())
    for (const Block block : blocks_of(read, present.size())) {
      if (present.contains(block)) continue;
      at_rest_since_ = now;
      if (!missed_.insert(block).second) continue;
      pump_.prefer_to_all(follow_.missed(block, present, wanted, most));
    }
  if (guess_ && !finder_ && missed_.size() >= expected_ + kForeignMisses)
    look_up({}, std::exchange(guess_, {}));
}

}  // namespace warmroot::warm
