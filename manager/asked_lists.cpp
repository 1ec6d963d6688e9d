#include "manager/asked_lists.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "bootstrap/warm/block_set.hpp"

namespace warmroot::manager {
namespace {

constexpr std::string_view kMagic = "warmroot-asked-lists-1";
/// Of what was asked for just now, as of any recording.
constexpr std::uint32_t kWholeWeight = 1000;

/// What a merge takes for one range: a file, or none, in one block.
using Place = std::pair<std::uint64_t, std::string_view>;

Place place_of(const warm::HotRange& range) {
  return {range.device.offset / warm::kGridBytes, range.path};
}

/// For each range of `together`, whether the list has it.
std::string marks_of(const warm::HotList& list, const warm::HotList& together) {
  std::set<Place> places;
  for (const warm::HotRange& range : list.ranges) places.insert(place_of(range));
  std::string marks;
  for (const warm::HotRange& range : together.ranges)
    marks += places.contains(place_of(range)) ? '1' : '0';
  return marks;
}

void weigh(AskedLists::One& one, std::uint32_t weight) {
  one.weight = weight;
  for (warm::HotRange& range : one.list.ranges) range.per_mille = weight;
}

}  // namespace

/// A line with how many volumes there are, a line for each with its weight and its marks, the list
/// of all that any of them asked for.
AskedLists AskedLists::parse(const std::string& text) {
  std::istringstream in(text);
  std::string magic;
  std::size_t count = 0;
  if (!(in >> magic >> count) || magic != kMagic || count > kMostVolumes) return {};
  AskedLists lists;
  lists.all_.resize(count);
  std::vector<std::string> marks(count);
  for (std::size_t i = 0; i < count; ++i)
    in >> lists.all_[i].volume_id >> lists.all_[i].weight >> marks[i];
  if (!in || in.get() != '\n') return {};
  const auto begin = static_cast<std::size_t>(std::streamoff(in.tellg()));
  const auto together = warm::decode_hot_list(std::string_view(text).substr(begin));
  if (!together) return {};
  for (std::size_t i = 0; i < count; ++i) {
    One& one = lists.all_[i];
    one.list = warm::HotList{together->lineage, together->workload, together->device_bytes, 1, {}};
    const std::size_t known = std::min(marks[i].size(), together->ranges.size());
    for (std::size_t at = 0; at < known; ++at)
      if (marks[i][at] == '1') one.list.ranges.push_back(together->ranges[at]);
    weigh(one, std::min(one.weight, kWholeWeight));
  }
  std::erase_if(lists.all_, [](const One& one) { return one.list.ranges.empty(); });
  return lists;
}

std::string AskedLists::text() const {
  std::vector<warm::HotList> lists;
  for (const One& one : all_) lists.push_back(one.list);
  const warm::HotList together = warm::merge_hot_lists(lists);
  if (together.ranges.empty()) return {};
  std::string lines = std::string(kMagic) + " " + std::to_string(all_.size()) + "\n";
  for (const One& one : all_)
    lines += one.volume_id + " " + std::to_string(one.weight) + " " + marks_of(one.list, together) +
             "\n";
  return lines + warm::encode_hot_list(together);
}

void AskedLists::add(const std::string& volume_id, warm::HotList list) {
  std::erase_if(all_, [&](const One& one) { return one.volume_id == volume_id; });
  One latest{volume_id, 0, std::move(list)};
  latest.list.recordings = 1;
  weigh(latest, kWholeWeight);
  all_.insert(all_.begin(), std::move(latest));
  if (all_.size() > kMostVolumes) all_.resize(kMostVolumes);
}

void AskedLists::fade() {
  for (One& one : all_)
    weigh(one, one.weight * warm::kMostRecordings / (warm::kMostRecordings + 1));
}

}  // namespace warmroot::manager
