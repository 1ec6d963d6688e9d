// What sessions want before all lists: files that are known by name, as they are found in the
// mounted root, and what lies around the blocks that a session has just missed. Called by the
// warmer between its reads; file_finder, session_trace and demand_follow do the work.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/block_trace.hpp"
#include "bootstrap/warm/demand_follow.hpp"
#include "bootstrap/warm/file_finder.hpp"
#include "bootstrap/warm/read_pump.hpp"
#include "bootstrap/warm/session_trace.hpp"
#include "bootstrap/warm/wanted_file.hpp"

namespace warmroot::warm {

class SessionWishes {
 public:
  using SteadyClock = std::chrono::steady_clock;

  /// Told what does not work; on the caller's thread.
  using OnNote = std::function<void(std::string)>;

  /// The pump reads a device of so many blocks, the root's file system begins at `offset_bytes`; at
  /// most `lookups` wait for that device at a time. Opens what `start` may not open any more.
  SessionWishes(ReadPump& pump, Block blocks, std::uint64_t offset_bytes, unsigned lookups,
                OnNote on_note)
      : pump_(pump),
        offset_bytes_(offset_bytes),
        lookups_(lookups),
        on_note_(std::move(on_note)),
        files_(blocks) {}

  /// Begins the lookups in the root and the session's trace, and waits for neither. An empty
  /// `mount_point`: there is neither. With a list, `guess` is asked only when sessions have missed
  /// kForeignMisses blocks that were not expected: the list is another workload's.
  void start(const std::string& device_path, const std::string& mount_point,
             std::vector<WantedFile> files, WantedGuess guess, bool has_list);
  static constexpr std::size_t kForeignMisses = 8;  ///< with its own list a session has 3 or 4
  /// These come anyway: that a session waits for one says nothing of what it will want next.
  void expect(std::span<const Block> blocks) {
    const std::size_t before = missed_.size();
    missed_.insert(blocks.begin(), blocks.end());
    expected_ += missed_.size() - before;
  }
  /// This one cannot be read.
  void give_up(Block block);
  /// No lookup is begun any more; waits for none. Those under way are waited for when this ends.
  void stop_lookups() {
    guess_ = {};
    if (finder_) finder_->stop();
  }

  /// Nothing is looked up and nobody followed any more. Waits for lookups under way.
  void end();

  /// Prefers in the pump what is wanted by now, of `wanted` (empty: of any) where a session has
  /// missed something; of that little while a hot list is being read.
  void prefer(SteadyClock::time_point now, const BlockSet& present, const BlockSet& wanted,
              bool reads_list);

  /// Since when no session has missed a block, by the last `prefer` that looked, which is every
  /// 10 ms; nothing where what sessions miss is not followed.
  std::optional<SteadyClock::time_point> at_rest_since() const { return at_rest_since_; }

  /// Where wanted files lie, as far as it is known.
  const BlockSet& files() const { return files_; }

 private:
  void prefer_files(const BlockSet& present);
  void prefer_file(const FoundFile& file, const BlockSet& present);
  void look_up(std::vector<WantedFile> files, WantedGuess guess);
  void take_trace();
  void follow_session(SteadyClock::time_point now, const BlockSet& present, const BlockSet& wanted,
                      Block most);

  ReadPump& pump_;
  std::uint64_t offset_bytes_;
  unsigned lookups_;
  OnNote on_note_;
  BlockSet files_;
  UniqueFd trace_place_ = BlockTrace::open_place();
  std::string mount_point_;
  WantedGuess guess_;  // until it is asked
  struct Program {     // found, to be asked for its libraries once it is there
    std::string path;
    std::uint32_t rank = 0;
    std::vector<Block> ends;  // the first block, the last
  };
  std::optional<FileFinder> finder_;
  std::vector<Program> programs_;
  std::future<std::optional<SessionTrace>> trace_;  // until it is there
  std::optional<SessionTrace> session_;
  DemandFollow follow_;
  std::unordered_set<Block> missed_;  // by the session, or expected
  std::size_t expected_ = 0;          // of them, and not missed before
  SteadyClock::time_point last_follow_{};
  std::optional<SteadyClock::time_point> at_rest_since_;
};

}  // namespace warmroot::warm
