// Which blocks of the pools' snapshots hold data, as EBS lists them: fetched once on a thread of
// its own, kept packed in the state directory (a snapshot never changes), and served to bootstraps.
// A snapshot whose list cannot be had costs nothing: its volumes' needed blocks are then what their
// file systems do not call free. Used by the daemon and, for reading, by the report server's
// threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/block_list.hpp"

namespace warmroot::manager {

/// When a snapshot is asked about again. A listing makes its own attempts within seconds.
struct BlockListPauses {
  Milliseconds first{10'000};      ///< after what may pass; doubled each time
  Milliseconds longest{600'000};   ///< ... up to this
  Milliseconds refused{3600'000};  ///< after a refusal: somebody may have given the right meanwhile
};

/// Called from the fetching thread.
struct BlockListHooks {
  /// The snapshot's list, from EBS. Ends soon once `give_up` is true.
  std::function<Result<warm::BlockList>(const std::string& snapshot_id,
                                        const std::atomic<bool>& give_up)>
      fetch;
  std::function<void(const warm::BlockList&)> kept;
  /// Told once for each new sentence about a snapshot.
  std::function<void(const std::string& snapshot_id, const Error&)> failed;
};

class BlockLists {
 public:
  /// `directory` is made when the first list comes. Nothing is fetched before want().
  BlockLists(std::string directory, BlockListHooks hooks, BlockListPauses pauses = {});
  /// Ends a listing under way.
  ~BlockLists();
  BlockLists(const BlockLists&) = delete;
  BlockLists& operator=(const BlockLists&) = delete;

  /// These are fetched unless they are kept already; others are not any more. Returns at once.
  void want(std::set<std::string> snapshots);

  /// The snapshot's list, packed; nullopt while it is not there.
  std::optional<std::string> of(const std::string& snapshot_id) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Trouble {
    Clock::time_point again;
    Milliseconds pause{0};
    std::string told;
  };
  void run();
  std::optional<std::string> next(std::unique_lock<std::mutex>& lock);
  void fetch(const std::string& snapshot_id);
  Ok keep(const warm::BlockList& list);
  void put_off(const std::string& snapshot_id, const Error& error);
  std::string path_of(const std::string& snapshot_id) const;

  const std::string directory_;
  const BlockListHooks hooks_;
  const BlockListPauses pauses_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> wanted_;
  std::map<std::string, Trouble> troubles_;  ///< the thread's
  std::set<std::string> kept_;               ///< the thread's
  std::thread thread_;
};

}  // namespace warmroot::manager
