#include "bootstrap/partition_grow.hpp"

#include <algorithm>
#include <array>

#include "bootstrap/base/sector.hpp"
#include "bootstrap/warm/little_endian.hpp"

namespace warmroot::bootstrap {
namespace {

using warm::little;
using warm::put_little;

/// Partitions end where partitioning programs let them end.
constexpr std::uint64_t kGrain = 2048;

// The master boot record.
constexpr std::size_t kMbrEntries = 446, kMbrEntryBytes = 16, kMbrStart = 8, kMbrCount = 12;
constexpr std::size_t kMbrType = 4;
constexpr unsigned kMostPrimary = 4;
constexpr unsigned kProtective = 0xee;
constexpr std::uint64_t kMostMbrSectors = UINT32_MAX;

// GPT, UEFI 2.10 section 5.3: offsets in the header and in an entry.
constexpr std::string_view kGptMagic = "EFI PART";
constexpr std::size_t kHeaderSize = 12, kHeaderCrc = 16, kMyLba = 24, kOtherLba = 32,
                      kLastUsable = 48, kEntriesLba = 72, kEntryCount = 80, kEntrySize = 84,
                      kEntriesCrc = 88;
constexpr std::size_t kLeastHeader = 92, kLeastEntry = 128;
constexpr std::size_t kTypeBytes = 16, kEntryFirst = 32, kEntryLast = 40;
constexpr std::uint64_t kPrimaryEntries = 2;

tl::unexpected<Error> refuse(const std::string& why) {
  return fail(ErrorKind::refused, why);
}

std::uint32_t crc32(std::string_view bytes) {
  constexpr std::uint32_t kReflected = 0xedb88320;
  std::uint32_t crc = UINT32_MAX;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflected : 0);
  }
  return ~crc;
}

std::uint64_t on_grain(std::uint64_t end) {
  return end / kGrain * kGrain;
}

class Gpt {
 public:
  /// `start` has kGrowthLooksAtBytes.
  static Result<Gpt> read(std::string_view start) {
    Gpt gpt;
    gpt.header_ = std::string(start.substr(kSector, kSector));
    const std::uint64_t size = gpt.header(kHeaderSize, 4);
    if (!gpt.header_.starts_with(kGptMagic) || size < kLeastHeader || size > kSector)
      return refuse("the first partition table is damaged");
    std::string blank = gpt.header_.substr(0, size);
    put_little(blank, kHeaderCrc, 0, 4);
    const std::uint64_t count = gpt.header(kEntryCount, 4), bytes = gpt.header(kEntrySize, 4);
    if (crc32(blank) != gpt.header(kHeaderCrc, 4) || gpt.header(kMyLba, 8) != 1)
      return refuse("the first partition table is damaged");
    if (gpt.header(kEntriesLba, 8) != kPrimaryEntries || bytes < kLeastEntry || bytes > kSector ||
        count == 0 || count * bytes > kGrowthLooksAtBytes - kPrimaryEntries * kSector)
      return refuse("the partition table is of a form that is not known");
    gpt.entry_bytes_ = bytes;
    gpt.entries_ = std::string(start.substr(kPrimaryEntries * kSector, count * bytes));
    if (crc32(gpt.entries_) != gpt.header(kEntriesCrc, 4))
      return refuse("the first partition table is damaged");
    return gpt;
  }

  std::uint64_t header(std::size_t at, std::size_t bytes) const {
    return little(header_, at, bytes);
  }
  std::size_t count() const { return entries_.size() / entry_bytes_; }
  std::uint64_t entry(std::size_t index, std::size_t at) const {
    return little(entries_, index * entry_bytes_ + at, 8);
  }
  bool is_used(std::size_t index) const {
    const auto type = std::string_view(entries_).substr(index * entry_bytes_, kTypeBytes);
    return type.find_first_not_of('\0') != std::string_view::npos;
  }
  std::uint64_t entry_sectors() const { return (entries_.size() + kSector - 1) / kSector; }

  void set_last(std::size_t index, std::uint64_t last) {
    put_little(entries_, index * entry_bytes_ + kEntryLast, last, 8);
  }
  /// The entries as they lie on the disk.
  std::string entries() const {
    std::string padded = entries_;
    padded.resize(entry_sectors() * kSector);
    return padded;
  }
  /// The header at one end of a disk of so many sectors.
  std::string header_at(std::uint64_t own, std::uint64_t other, std::uint64_t entries,
                        std::uint64_t last_usable) const {
    std::string made = header_;
    put_little(made, kMyLba, own, 8);
    put_little(made, kOtherLba, other, 8);
    put_little(made, kEntriesLba, entries, 8);
    put_little(made, kLastUsable, last_usable, 8);
    put_little(made, kEntriesCrc, crc32(entries_), 4);
    put_little(made, kHeaderCrc, 0, 4);
    put_little(made, kHeaderCrc, crc32(std::string_view(made).substr(0, header(kHeaderSize, 4))),
               4);
    return made;
  }

 private:
  std::string header_, entries_;
  std::uint64_t entry_bytes_ = 0;
};

/// The first sector with the protective entry over the whole disk.
std::string protective(std::string_view first_sector, std::uint64_t sectors) {
  std::string mbr(first_sector);
  for (unsigned i = 0; i < kMostPrimary; ++i) {
    const std::size_t at = kMbrEntries + i * kMbrEntryBytes;
    if (little(mbr, at + kMbrType, 1) == kProtective)
      put_little(mbr, at + kMbrCount, std::min(sectors - 1, kMostMbrSectors), 4);
  }
  return mbr;
}

Result<std::optional<Growth>> grow_gpt(std::string_view start, std::uint64_t sectors,
                                       const PartitionFacts& partition) {
  TRY_ASSIGN(Gpt gpt, Gpt::read(start));
  const auto index = static_cast<std::size_t>(partition.number) - 1;
  if (partition.number < 1 || index >= gpt.count() || !gpt.is_used(index) ||
      gpt.entry(index, kEntryFirst) != partition.offset_bytes / kSector)
    return refuse("the first partition table says something else than the second");
  const std::uint64_t first = gpt.entry(index, kEntryFirst), last = gpt.entry(index, kEntryLast);
  const std::uint64_t at_end = gpt.entry_sectors() + 1;  // the second table
  if (first < kPrimaryEntries + gpt.entry_sectors() || first > last || last >= sectors ||
      sectors < kGrain + at_end)
    return refuse("the partition table is of another disk");
  for (std::size_t other = 0; other < gpt.count(); ++other)
    if (other != index && gpt.is_used(other) && gpt.entry(other, kEntryLast) > first)
      return refuse("partition " + std::to_string(other + 1) + " lies behind it");
  const std::uint64_t end = on_grain(sectors - at_end);
  if (end < last + 1 + kGrain) return std::optional<Growth>();
  gpt.set_last(index, end - 1);
  const std::uint64_t usable = sectors - at_end - 1, second = sectors - at_end;
  Growth growth;
  growth.size_bytes = (end - first) * kSector;
  // The second table first: as long as the first one holds, nobody looks at it.
  growth.writes.push_back({second * kSector, gpt.entries()});
  growth.writes.push_back({(sectors - 1) * kSector, gpt.header_at(sectors - 1, 1, second, usable)});
  growth.writes.push_back(
      {kSector, gpt.header_at(1, sectors - 1, kPrimaryEntries, usable) + gpt.entries()});
  growth.writes.push_back({0, protective(start.substr(0, kSector), sectors)});
  return growth;
}

Result<std::optional<Growth>> grow_mbr(std::string_view start, std::uint64_t sectors,
                                       const PartitionFacts& partition) {
  if (partition.number < 1 || partition.number > static_cast<int>(kMostPrimary))
    return refuse("it is a logical partition");
  std::string mbr(start.substr(0, kSector));
  const auto entry = [](int number) { return kMbrEntries + (number - 1) * kMbrEntryBytes; };
  const std::size_t at = entry(partition.number);
  const std::uint64_t first = little(mbr, at + kMbrStart, 4),
                      count = little(mbr, at + kMbrCount, 4);
  if (first == 0 || first != partition.offset_bytes / kSector || first + count > sectors)
    return refuse("the partition table is of another disk");
  for (int other = 1; other <= static_cast<int>(kMostPrimary); ++other)
    if (other != partition.number && little(mbr, entry(other) + kMbrType, 1) != 0 &&
        little(mbr, entry(other) + kMbrStart, 4) > first)
      return refuse("partition " + std::to_string(other) + " lies behind it");
  const std::uint64_t end = on_grain(std::min(sectors, first + kMostMbrSectors));
  if (end < first + count + kGrain) return std::optional<Growth>();
  put_little(mbr, at + kMbrCount, end - first, 4);
  return Growth{(end - first) * kSector, {{0, std::move(mbr)}}};
}

}  // namespace

Result<std::optional<Growth>> plan_growth(std::string_view start, std::uint64_t disk_bytes,
                                          const PartitionFacts& partition) {
  if (start.size() < kGrowthLooksAtBytes) return refuse("the disk is too small");
  if (partition.table == "gpt")
    return grow_gpt(start.substr(0, kGrowthLooksAtBytes), disk_bytes / kSector, partition);
  if (partition.table == "dos")
    return grow_mbr(start.substr(0, kGrowthLooksAtBytes), disk_bytes / kSector, partition);
  return refuse("a partition table of the kind \"" + partition.table + "\" is left alone");
}

}  // namespace warmroot::bootstrap
