#include "manager/block_lists.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "manager/config.hpp"
#include "manager/state_files.hpp"

namespace warmroot::manager {
namespace {

constexpr const char* kSuffix = ".blocks";
/// Beyond those that are wanted: sources that nobody uses any more.
constexpr std::size_t kMostUnused = 64;

}  // namespace

BlockLists::BlockLists(std::string directory, BlockListHooks hooks, BlockListPauses pauses)
    : directory_(std::move(directory)), hooks_(std::move(hooks)), pauses_(pauses) {}

BlockLists::~BlockLists() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string BlockLists::path_of(const std::string& snapshot_id) const {
  return directory_ + "/" + snapshot_id + kSuffix;
}

void BlockLists::want(std::set<std::string> snapshots) {
  std::erase_if(snapshots, [](const std::string& id) { return !warm::is_snapshot_id(id); });
  const std::lock_guard lock(mutex_);
  if (snapshots == wanted_) return;
  wanted_ = std::move(snapshots);
  if (!thread_.joinable() && !wanted_.empty()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

std::optional<std::string> BlockLists::of(const std::string& snapshot_id) const {
  if (!warm::is_snapshot_id(snapshot_id)) return std::nullopt;
  auto bytes = read_text_file(path_of(snapshot_id), warm::kMostBlockListBytes);
  if (!bytes) return std::nullopt;
  const auto list = warm::decode_block_list(*bytes);
  if (!list || list->snapshot_id != snapshot_id) return std::nullopt;
  return std::move(*bytes);
}

/// A snapshot that is to be fetched now; waits for one. nullopt when stopping.
std::optional<std::string> BlockLists::next(std::unique_lock<std::mutex>& lock) {
  while (!stopping_) {
    auto wake = Clock::time_point::max();
    for (const std::string& id : wanted_) {
      if (kept_.contains(id)) continue;
      const auto trouble = troubles_.find(id);
      if (trouble == troubles_.end() || trouble->second.again <= Clock::now()) return id;
      wake = std::min(wake, trouble->second.again);
    }
    if (wake == Clock::time_point::max())
      changed_.wait(lock);
    else
      changed_.wait_until(lock, wake);
  }
  return std::nullopt;
}

void BlockLists::run() {
  std::unique_lock lock(mutex_);
  while (const auto id = next(lock)) {
    lock.unlock();
    if (of(*id))
      kept_.insert(*id);
    else
      fetch(*id);
    lock.lock();
  }
}

void BlockLists::fetch(const std::string& snapshot_id) {
  const auto list = hooks_.fetch(snapshot_id, stopping_);
  if (stopping_) return;
  const Ok done = list ? keep(*list) : Ok{fail(list.error())};
  if (!done) return put_off(snapshot_id, done.error());
  kept_.insert(snapshot_id);
  troubles_.erase(snapshot_id);
  if (hooks_.kept) hooks_.kept(*list);
}

Ok BlockLists::keep(const warm::BlockList& list) {
  TRY_ASSIGN(const std::string bytes, warm::encode_block_list(list));
  TRY(replace_file(path_of(list.snapshot_id), bytes));
  const std::lock_guard lock(mutex_);
  forget_oldest(directory_, kSuffix, wanted_.size() + kMostUnused);
  std::erase_if(kept_, [this](const std::string& id) {  // if it is wanted, it is fetched again
    return !std::filesystem::exists(path_of(id));
  });
  return {};
}

void BlockLists::put_off(const std::string& snapshot_id, const Error& error) {
  Trouble& trouble = troubles_[snapshot_id];
  const bool may_pass = error.kind == ErrorKind::retry_later;
  if (!may_pass)
    trouble.pause = pauses_.refused;
  else if (trouble.pause == Milliseconds{0})
    trouble.pause = pauses_.first;
  else
    trouble.pause = std::min(2 * trouble.pause, pauses_.longest);
  trouble.again = Clock::now() + trouble.pause;
  // Without the id of the request, which is another each time.
  const std::string sentence = error.code + error.context;
  if (std::exchange(trouble.told, sentence) != sentence && hooks_.failed)
    hooks_.failed(snapshot_id, error);
}

}  // namespace warmroot::manager
