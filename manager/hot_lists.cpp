#include "manager/hot_lists.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "bootstrap/warm/block_list.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "manager/config.hpp"
#include "manager/state_files.hpp"

namespace warmroot::manager {
namespace {

/// Lineages beyond these are of sources that nobody uses any more.
constexpr std::size_t kMostLineages = 64;
constexpr const char* kSuffix = ".list";
/// Beside the lists, a file a pool: its lineages, one a line, the latest first.
constexpr const char* kPoolSuffix = ".pool";
constexpr std::size_t kMostOfPool = 8;
constexpr std::size_t kMostPoolBytes = 4096;

using warm::is_snapshot_id;

/// As the spec checks it; a name becomes a file's, too.
bool is_pool_name(std::string_view text) {
  constexpr std::string_view kPlain =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
  return !text.empty() && text.size() <= 128 &&
         text.find_first_not_of(kPlain) == std::string_view::npos;
}

/// Of those heard last: instances may be gone without a word.
constexpr std::size_t kMostSoFar = 64;

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

std::string HotLists::path_of(const std::string& lineage) const {
  return directory_ + "/" + lineage + kSuffix;
}

Ok HotLists::add(const std::string& pool, const std::string& lineage,
                 const std::string& instance_id, std::string_view recording) {
  TRY_ASSIGN(auto recorded, recording_of(lineage, recording));
  const std::lock_guard lock(mutex_);
  so_far_.erase(instance_id);
  std::vector<warm::HotList> lists;
  if (const auto kept = read_text_file(path_of(lineage), warm::kMostListBytes))
    if (auto list = warm::decode_hot_list(*kept)) lists.push_back(std::move(*list));
  lists.push_back(std::move(recorded));
  TRY(replace_file(path_of(lineage), warm::encode_hot_list(warm::merge_hot_lists(lists))));
  remember(pool, lineage);
  forget_oldest(directory_, kSuffix, kMostLineages);
  return {};
}

Ok HotLists::add_so_far(const std::string& lineage, const std::string& instance_id,
                        std::string_view recording) {
  TRY_ASSIGN(auto recorded, recording_of(lineage, recording));
  const std::lock_guard lock(mutex_);
  so_far_.insert_or_assign(instance_id, SoFar{++heard_, std::move(recorded)});
  if (so_far_.size() > kMostSoFar)
    so_far_.erase(
        std::min_element(so_far_.begin(), so_far_.end(), [](const auto& left, const auto& right) {
          return left.second.number < right.second.number;
        }));
  return {};
}

std::optional<std::string> HotLists::of(const std::string& lineage) {
  const std::lock_guard lock(mutex_);
  auto kept = read(lineage);
  std::vector<warm::HotList> lists;
  for (const auto& [instance_id, each] : so_far_)
    if (each.list.lineage == lineage) lists.push_back(each.list);
  if (lists.empty()) return kept;
  if (kept)
    if (auto list = warm::decode_hot_list(*kept)) lists.insert(lists.begin(), std::move(*list));
  return warm::encode_hot_list(warm::merge_hot_lists(lists));
}

std::optional<std::string> HotLists::of_pool(const std::string& pool,
                                             const std::string& but_lineage) {
  const std::lock_guard lock(mutex_);
  for (const std::string& lineage : lineages_of(pool))
    if (lineage != but_lineage)
      if (auto list = read(lineage)) return list;
  return std::nullopt;
}

std::vector<std::string> HotLists::lineages_of(const std::string& pool) const {
  std::vector<std::string> lineages;
  if (!is_pool_name(pool)) return lineages;
  std::istringstream lines(
      read_text_file(directory_ + "/" + pool + kPoolSuffix, kMostPoolBytes).value_or(""));
  for (std::string line; std::getline(lines, line) && lineages.size() < kMostOfPool;)
    if (is_snapshot_id(line)) lineages.push_back(line);
  return lineages;
}

/// What is lost here is learned again at the next recording.
void HotLists::remember(const std::string& pool, const std::string& lineage) const {
  if (!is_pool_name(pool)) return;
  auto lineages = lineages_of(pool);
  std::erase(lineages, lineage);
  lineages.insert(lineages.begin(), lineage);
  std::string lines;
  for (const std::string& one : lineages) lines += one + '\n';
  [[maybe_unused]] const Ok kept = replace_file(directory_ + "/" + pool + kPoolSuffix, lines);
}

std::optional<std::string> HotLists::read(const std::string& lineage) const {
  if (!is_snapshot_id(lineage)) return std::nullopt;
  auto text = read_text_file(path_of(lineage), warm::kMostListBytes);
  if (!text || !warm::decode_hot_list(*text)) return std::nullopt;
  return std::move(*text);
}

}  // namespace warmroot::manager
