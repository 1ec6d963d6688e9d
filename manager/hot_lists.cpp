#include "manager/hot_lists.hpp"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "bootstrap/warm/block_list.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "manager/config.hpp"
#include "manager/state_files.hpp"

namespace warmroot::manager {
namespace {

/// Of lineages that no volume and no pool has any more: one may come back.
constexpr std::size_t kMostUnused = 64;
constexpr const char* kSuffix = ".list";
/// Beside each list: the volumes that have taught it, one a line.
constexpr const char* kTaughtSuffix = ".taught";
constexpr std::size_t kMostTaughtBytes = 64 * 1024;
/// Beside each list: what was asked for on its volumes (AskedLists).
constexpr const char* kAskedSuffix = ".asked";
/// Each writes the lineage's whole file, for which nodes that begin wait: a fleet may ask at once.
constexpr std::size_t kMostAskedWithinPause = 16;
/// Beside the lists, a file a pool: its lineages, one a line, the latest first.
constexpr const char* kPoolSuffix = ".pool";
constexpr std::size_t kMostOfPool = 8;
constexpr std::size_t kMostPoolBytes = 4096;

using warm::is_snapshot_id;

/// As the spec checks a pool's; a name becomes a file's, too. A volume's id is one.
bool is_plain_name(std::string_view text) {
  constexpr std::string_view kPlain =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
  return !text.empty() && text.size() <= 128 &&
         text.find_first_not_of(kPlain) == std::string_view::npos;
}

/// Of those heard last: instances may be gone without a word.
constexpr std::size_t kMostSoFar = 64;
/// A list that took long to merge is handed out for so many times as long.
constexpr int kPausePerMerge = 10;
constexpr auto kLongMerge = std::chrono::milliseconds(5);
constexpr std::size_t kMostMerged = 256;

/// One recording of the lineage, whatever it claims to be.
Result<warm::HotList> recording_of(const std::string& lineage, std::string_view text) {
  if (!is_snapshot_id(lineage))
    return fail(ErrorKind::refused, "\"" + lineage + "\" is no snapshot's id");
  auto recorded = warm::decode_hot_list(text);
  if (!recorded) return fail(ErrorKind::refused, recorded.error().message());
  recorded->lineage = lineage;
  recorded->recordings = 1;
  return recorded;
}

}  // namespace

std::string HotLists::path_of(const std::string& lineage, const char* suffix) const {
  return directory_ + "/" + lineage + suffix;
}

std::set<std::string> HotLists::volumes_that_taught(const std::string& lineage) const {
  std::istringstream lines(
      read_text_file(path_of(lineage, kTaughtSuffix), kMostTaughtBytes).value_or(""));
  std::set<std::string> volumes;
  for (std::string line; std::getline(lines, line);) volumes.insert(std::move(line));
  return volumes;
}

bool HotLists::has_taught(const Teacher& from) const {
  return volumes_that_taught(from.lineage).contains(from.volume_id);
}

/// The latest first. Who taught so long ago that it has left the file has a share of next to
/// nothing by now.
void HotLists::mark_taught(const Teacher& from) const {
  if (from.volume_id.empty()) return;
  const std::string path = path_of(from.lineage, kTaughtSuffix);
  std::string lines = from.volume_id + "\n" + read_text_file(path, kMostTaughtBytes).value_or("");
  if (lines.size() > kMostTaughtBytes) lines.resize(lines.rfind('\n', kMostTaughtBytes - 1) + 1);
  [[maybe_unused]] const Ok kept = replace_file(path, lines);
}

Ok HotLists::add(const Teacher& from, std::string_view recording) {
  const std::lock_guard merging(merging_);
  TRY_ASSIGN(auto recorded, recording_of(from.lineage, recording));
  if (has_taught(from)) {
    forget_so_far(from);
    return {};
  }
  std::vector<warm::HotList> lists;
  const std::string path = path_of(from.lineage, kSuffix);
  if (const auto kept = read_text_file(path, warm::kMostListBytes))
    if (auto list = warm::decode_hot_list(*kept)) lists.push_back(std::move(*list));
  const bool fades = !lists.empty() && lists.front().recordings == warm::kMostRecordings;
  lists.push_back(std::move(recorded));
  TRY(replace_file(path, warm::encode_hot_list(warm::merge_hot_lists(lists))));
  if (fades) fade_asked(from.lineage);
  mark_taught(from);
  remember(from.pool, from.lineage);
  forget_others();
  forget_so_far(from);
  return {};
}

AskedLists HotLists::asked_of(const std::string& lineage) const {
  return AskedLists::parse(
      read_text_file(path_of(lineage, kAskedSuffix), AskedLists::kMostTextBytes).value_or(""));
}

/// Under merging_. As what is in the list itself, which has got one recording more.
void HotLists::fade_asked(const std::string& lineage) const {
  AskedLists asked = asked_of(lineage);
  if (asked.all().empty()) return;
  asked.fade();
  [[maybe_unused]] const Ok kept = replace_file(path_of(lineage, kAskedSuffix), asked.text());
}

void HotLists::forget_so_far(const Teacher& from) {
  const std::lock_guard lock(mutex_);
  so_far_.erase(from.instance_id);
  merged_[from.lineage].stale = true;
}

Ok HotLists::add_so_far(const Teacher& from, std::string_view recording) {
  TRY_ASSIGN(auto recorded, recording_of(from.lineage, recording));
  if (has_taught(from)) return {};
  const std::lock_guard lock(mutex_);
  so_far_.insert_or_assign(from.instance_id, SoFar{++heard_, from.volume_id, std::move(recorded)});
  if (so_far_.size() > kMostSoFar)
    so_far_.erase(
        std::min_element(so_far_.begin(), so_far_.end(), [](const auto& left, const auto& right) {
          return left.second.number < right.second.number;
        }));
  merged_[from.lineage].stale = true;
  return {};
}

Ok HotLists::add_asked(const Teacher& from, std::string_view recording) {
  TRY_ASSIGN(auto recorded, recording_of(from.lineage, recording));
  if (!is_plain_name(from.volume_id))
    return fail(ErrorKind::refused, "\"" + from.volume_id + "\" is no volume's id");
  const std::lock_guard merging(merging_);
  const auto now = Clock::now();
  std::erase_if(asked_at_, [&](const auto& each) { return now - each.second >= asked_pause_; });
  if (asked_at_.size() >= kMostAskedWithinPause)
    return fail(ErrorKind::retry_later, "too many volumes were heard a moment ago");
  if (!asked_at_.emplace(from.volume_id, now).second)
    return fail(ErrorKind::retry_later, "volume " + from.volume_id + " was heard a moment ago");
  AskedLists asked = asked_of(from.lineage);
  asked.add(from.volume_id, std::move(recorded));
  TRY(replace_file(path_of(from.lineage, kAskedSuffix), asked.text()));
  remember(from.pool, from.lineage);
  forget_others();
  const std::lock_guard lock(mutex_);
  merged_[from.lineage].stale = true;
  return {};
}

/// What was merged last, where that is good enough.
std::optional<std::optional<std::string>> HotLists::merged(const std::string& lineage) {
  const std::lock_guard lock(mutex_);
  if (merged_.size() > kMostMerged) merged_.clear();
  const Merged& last = merged_[lineage];
  if (!last.made || (last.stale && Clock::now() >= last.again)) return std::nullopt;
  return last.text;
}

std::optional<std::string> HotLists::of(const std::string& lineage) {
  if (!is_snapshot_id(lineage)) return std::nullopt;
  if (auto text = merged(lineage)) return std::move(*text);
  const std::lock_guard merging(merging_);
  if (auto text = merged(lineage)) return std::move(*text);  // by whom we have waited for
  const auto began = Clock::now();
  auto text = merge_anew(lineage);
  const std::lock_guard lock(mutex_);
  Merged& made = merged_[lineage];
  made.text = text;
  made.made = true;
  const auto took = Clock::now() - began;
  made.again = Clock::now() + (took >= kLongMerge ? kPausePerMerge * took : Clock::duration(0));
  return text;
}

/// Under merging_. Each volume has one voice: what it has taught, else its recording so far, else
/// what was asked for on it, which adds to the others where there is one of them.
std::optional<std::string> HotLists::merge_anew(const std::string& lineage) {
  std::set<std::string> heard = volumes_that_taught(lineage);
  std::vector<warm::HotList> lists, beside;
  {
    const std::lock_guard lock(mutex_);
    merged_[lineage].stale = false;
    for (const auto& [instance_id, each] : so_far_)
      if (each.list.lineage == lineage) {
        lists.push_back(each.list);
        heard.insert(each.volume_id);
      }
  }
  const AskedLists asked = asked_of(lineage);
  for (const AskedLists::One& one : asked.all())
    (heard.contains(one.volume_id) ? beside : lists).push_back(one.list);
  auto text = read(lineage);
  if (lists.empty() && beside.empty()) return text;
  if (text)
    if (auto list = warm::decode_hot_list(*text)) lists.insert(lists.begin(), std::move(*list));
  if (lists.empty()) lists.swap(beside);  // what those volumes taught has been lost
  return warm::encode_hot_list(warm::merge_hot_lists(lists, beside));
}

void HotLists::keep(std::set<std::string> lineages) {
  const std::lock_guard lock(mutex_);
  in_use_ = std::move(lineages);
}

void HotLists::forget_others() const {
  std::set<std::string> in_use;
  {
    const std::lock_guard lock(mutex_);
    in_use = in_use_;
  }
  for (const char* suffix : {kSuffix, kTaughtSuffix, kAskedSuffix})
    forget_oldest(directory_, suffix, kMostUnused, in_use);
}

std::optional<std::string> HotLists::of_pool(const std::string& pool,
                                             const std::string& but_lineage) {
  for (const std::string& lineage : lineages_of(pool))
    if (lineage != but_lineage)
      if (auto list = of(lineage)) return list;
  return std::nullopt;
}

std::vector<std::string> HotLists::lineages_of(const std::string& pool) const {
  std::vector<std::string> lineages;
  if (!is_plain_name(pool)) return lineages;
  std::istringstream lines(
      read_text_file(directory_ + "/" + pool + kPoolSuffix, kMostPoolBytes).value_or(""));
  for (std::string line; std::getline(lines, line) && lineages.size() < kMostOfPool;)
    if (is_snapshot_id(line)) lineages.push_back(line);
  return lineages;
}

/// What is lost here is learned again at the next recording.
void HotLists::remember(const std::string& pool, const std::string& lineage) const {
  if (!is_plain_name(pool)) return;
  auto lineages = lineages_of(pool);
  std::erase(lineages, lineage);
  lineages.insert(lineages.begin(), lineage);
  std::string lines;
  for (const std::string& one : lineages) lines += one + '\n';
  [[maybe_unused]] const Ok kept = replace_file(directory_ + "/" + pool + kPoolSuffix, lines);
}

std::optional<std::string> HotLists::read(const std::string& lineage) const {
  if (!is_snapshot_id(lineage)) return std::nullopt;
  auto text = read_text_file(path_of(lineage, kSuffix), warm::kMostListBytes);
  if (!text || !warm::decode_hot_list(*text)) return std::nullopt;
  return std::move(*text);
}

}  // namespace warmroot::manager
