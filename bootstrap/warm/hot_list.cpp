#include "bootstrap/warm/hot_list.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "bootstrap/warm/checksum.hpp"

namespace warmroot::warm {
namespace {

constexpr std::string_view kMagic = "warmroot-hot-list";
constexpr std::uint32_t kVersion = 1;
/// Read in fewer recordings than this of a thousand, a range is worth no read ahead of use.
constexpr std::uint32_t kLeastPerMille = 30;

bool is_plain(unsigned char c) {
  return c > ' ' && c < 0x7f && c != '%';
}

/// Names hold any byte but zero; a line holds no space, no newline and no escape of its own.
std::string escaped(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char raw : text) {
    const auto c = static_cast<unsigned char>(raw);
    if (is_plain(c)) {
      out += raw;
    } else {
      out += '%';
      out += kHex[c / 16];
      out += kHex[c % 16];
    }
  }
  return out;
}

std::optional<std::string> unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (!is_plain(static_cast<unsigned char>(text[i]))) return std::nullopt;
      out += text[i];
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
    if (error != std::errc{} || end != text.data() + i + 3 || value == 0) return std::nullopt;
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

/// Takes the next word off a line.
std::string_view word(std::string_view& line) {
  const auto end = std::min(line.find(' '), line.size());
  const auto taken = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return taken;
}

template <typename Number>
bool take(std::string_view& line, Number& value) {
  const auto text = word(line);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

/// Takes the next line off a text.
std::string_view line_of(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const auto taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

tl::unexpected<Error> broken(std::string_view what) {
  return fail(ErrorKind::broken, "the hot list " + std::string(what));
}

/// "key value" as a header line.
bool header(std::string_view& text, std::string_view key, std::string& value) {
  auto line = line_of(text);
  if (word(line) != key) return false;
  auto plain = unescaped(line);
  if (plain) value = std::move(*plain);
  return plain.has_value();
}

bool header(std::string_view& text, std::string_view key, auto& value) {
  auto line = line_of(text);
  return word(line) == key && take(line, value) && line.empty();
}

std::uint64_t block_of(const HotRange& range) {
  return range.device.offset / kGridBytes;
}

bool parse_range(std::string_view line, std::uint64_t device_bytes, HotRange& range) {
  if (!take(line, range.device.offset) || !take(line, range.device.length) ||
      !take(line, range.per_mille))
    return false;
  if (range.device.length == 0 || range.device.offset > device_bytes ||
      range.device.length > device_bytes - range.device.offset || range.per_mille > 1000 ||
      block_of(range) != (range.device.offset + range.device.length - 1) / kGridBytes)
    return false;
  if (line.empty()) return true;
  if (!take(line, range.file_offset)) return false;
  auto path = unescaped(line);
  if (!path || !path->starts_with('/')) return false;
  range.path = std::move(*path);
  return true;
}

/// A range over several lists.
struct Merged {
  HotRange range;
  std::uint64_t share = 0;      ///< weighted per mille
  std::uint64_t positions = 0;  ///< weighted sum
  std::uint64_t weight = 0;     ///< of the lists that hold it
  const HotList* latest = nullptr;
  bool is_beside = false;  ///< no list that counts holds it
};
using MergedPlaces = std::map<std::tuple<std::uint64_t, std::string_view>, Merged>;

/// Requires that all that count come first.
void merge_into(MergedPlaces& places, const HotList& list, bool counts) {
  const std::uint64_t weight = list.recordings;
  for (std::size_t i = 0; i < list.ranges.size(); ++i) {
    const HotRange& range = list.ranges[i];
    Merged& one = places[{block_of(range), range.path}];
    if (one.weight > 0 && !counts && !one.is_beside) continue;
    if (one.weight > 0)
      unite(one.range, range);
    else
      one.range = range;
    one.is_beside = !counts;
    if (std::exchange(one.latest, &list) == &list) continue;  // one that says it twice
    one.share += weight * range.per_mille;
    one.positions += weight * i;
    one.weight += weight;
  }
}

}  // namespace

void unite(HotRange& range, const HotRange& other) {
  const auto end = std::max(range.device.offset + range.device.length,
                            other.device.offset + other.device.length);
  if (other.device.offset < range.device.offset) {
    range.device.offset = other.device.offset;
    range.file_offset = other.file_offset;
  }
  range.device.length = end - range.device.offset;
}

std::string encode_hot_list(const HotList& list) {
  constexpr std::size_t kForChecksum = 64;
  const std::string head = std::string(kMagic) + ' ' + std::to_string(kVersion) + "\ngrid " +
                           std::to_string(kGridBytes) + "\nlineage " + escaped(list.lineage) +
                           "\nworkload " + escaped(list.workload) + "\ndevice " +
                           std::to_string(list.device_bytes) + "\nrecordings " +
                           std::to_string(list.recordings) + "\nranges ";
  std::string lines;
  std::size_t count = 0;
  for (const HotRange& range : list.ranges) {
    std::string line = std::to_string(range.device.offset) + ' ' +
                       std::to_string(range.device.length) + ' ' + std::to_string(range.per_mille);
    if (!range.path.empty())
      line += ' ' + std::to_string(range.file_offset) + ' ' + escaped(range.path);
    if (count == kMostRanges ||
        head.size() + lines.size() + line.size() + kForChecksum > kMostListBytes)
      break;
    lines += line + '\n';
    ++count;
  }
  const std::string text = head + std::to_string(count) + '\n' + lines;
  return text + "checksum " + std::to_string(checksum(text)) + '\n';
}

Result<HotList> decode_hot_list(std::string_view text) {
  if (text.size() > kMostListBytes) return broken("is longer than a hot list may be");
  const std::string_view whole = text;
  auto first = line_of(text);
  std::uint32_t version = 0;
  if (word(first) != kMagic || !take(first, version)) return broken("is no hot list");
  if (version != kVersion)
    return fail(ErrorKind::misconfigured, "the hot list has version " + std::to_string(version) +
                                              ", not " + std::to_string(kVersion));
  std::uint64_t grid = 0;
  if (!header(text, "grid", grid)) return broken("names no grid");
  if (grid != kGridBytes)
    return fail(ErrorKind::misconfigured, "the hot list has another block size");
  HotList list;
  std::size_t ranges = 0;
  if (!header(text, "lineage", list.lineage) || !header(text, "workload", list.workload) ||
      !header(text, "device", list.device_bytes) || !header(text, "recordings", list.recordings) ||
      !header(text, "ranges", ranges))
    return broken("has no complete header");
  if (ranges > kMostRanges || list.recordings == 0 || list.recordings > kMostRecordings)
    return broken("claims more than a hot list may hold");
  list.ranges.reserve(std::min(ranges, text.size() / 6));
  for (std::size_t i = 0; i < ranges; ++i) {
    if (text.empty()) return broken("is cut short");
    HotRange& range = list.ranges.emplace_back();
    if (!parse_range(line_of(text), list.device_bytes, range))
      return broken("has a range in line " + std::to_string(i + 8) + " that makes no sense");
  }
  const auto covered = whole.substr(0, whole.size() - text.size());
  std::uint64_t sum = 0;
  if (!header(text, "checksum", sum)) return broken("is cut short");
  if (sum != checksum(covered)) return broken("is damaged: its checksum is wrong");
  if (!text.empty()) return broken("goes on behind its end");
  return list;
}

HotList merge_hot_lists(std::span<const HotList> lists, std::span<const HotList> beside) {
  HotList merged;
  if (lists.empty()) return merged;
  merged.lineage = lists.front().lineage;
  merged.workload = lists.front().workload;
  std::uint64_t recordings = 0;
  MergedPlaces by_place;
  const auto merge = [&](const HotList& list, bool counts) {
    merged.device_bytes = std::max(merged.device_bytes, list.device_bytes);
    if (counts) recordings += list.recordings;
    merge_into(by_place, list, counts);
  };
  for (const HotList& list : lists) merge(list, true);
  for (const HotList& list : beside) merge(list, false);
  std::vector<Merged> all;
  for (auto& [place, one] : by_place) {
    one.range.per_mille =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(1000, one.share / recordings));
    if (one.range.per_mille >= kLeastPerMille) all.push_back(std::move(one));
  }
  std::sort(all.begin(), all.end(), [](const Merged& left, const Merged& right) {
    const auto key = [](const Merged& of) {
      return std::make_tuple(of.range.per_mille < 500, of.is_beside, of.positions / of.weight,
                             of.range.device.offset);
    };
    return key(left) < key(right);
  });
  if (all.size() > kMostRanges) all.resize(kMostRanges);
  for (Merged& one : all) merged.ranges.push_back(std::move(one.range));
  merged.recordings =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(recordings, kMostRecordings));
  return merged;
}

std::vector<Block> hot_blocks(const HotList& list, Block device_blocks) {
  std::vector<Block> order;
  BlockSet taken(device_blocks);
  for (const HotRange& range : list.ranges) {
    if (block_of(range) >= device_blocks) continue;
    const auto block = static_cast<Block>(block_of(range));
    if (taken.contains(block)) continue;
    taken.insert(block);
    order.push_back(block);
  }
  return order;
}

std::vector<WantedFile> hot_files(const HotList& list) {
  std::vector<WantedFile> files;
  for (const HotRange& range : list.ranges)
    // A name that ends like a pattern is a file's all the same.
    if (!range.path.empty() && !range.path.ends_with('*'))
      files.push_back({range.path, range.file_offset, range.device.length});
  return files;
}

}  // namespace warmroot::warm
