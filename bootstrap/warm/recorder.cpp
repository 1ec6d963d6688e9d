#include "bootstrap/warm/recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

namespace warmroot::warm {
namespace {

/// Reads that one recording keeps; a session has thousands.
constexpr std::size_t kMostReads = 262'144;
constexpr std::size_t kMostOwnReads = 65'536;
/// Of one file, as far as it is looked at for pages in memory.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{256} << 20;

/// Joins ranges of one file in one block as they come.
class ListBuilder {
 public:
  ListBuilder(HotList& list, const PlaceMap& places, std::uint64_t partition_offset)
      : list_(list), places_(places), partition_offset_(partition_offset) {}

  void add(ByteRange read) {
    while (read.length > 0 && list_.ranges.size() < kMostRanges) {
      const std::uint64_t block_end = (read.offset / kGridBytes + 1) * kGridBytes;
      ByteRange piece{read.offset, std::min(read.length, block_end - read.offset)};
      const auto place = read.offset >= partition_offset_
                             ? places_.at(read.offset - partition_offset_)
                             : std::nullopt;
      if (place) piece.length = std::min(piece.length, place->length);
      put({piece, place ? place->path : std::string(), place ? place->offset : 0, 1000});
      read.offset += piece.length;
      read.length -= piece.length;
    }
  }

 private:
  void put(HotRange range) {
    const auto key = std::make_pair(range.device.offset / kGridBytes, range.path);
    const auto [known, is_new] = numbers_.try_emplace(key, list_.ranges.size());
    if (is_new)
      list_.ranges.push_back(std::move(range));
    else
      unite(list_.ranges[known->second], range);
  }

  HotList& list_;
  const PlaceMap& places_;
  std::uint64_t partition_offset_;
  std::map<std::pair<std::uint64_t, std::string>, std::size_t> numbers_;
};

}  // namespace

HotList make_hot_list(std::span<const ByteRange> reads, const PlaceMap& places,
                      const RecordRequest& request) {
  HotList list{request.lineage, request.workload, request.device_bytes, 1, {}};
  ListBuilder builder(list, places, request.partition_offset);
  for (ByteRange read : reads) {
    if (read.offset >= request.device_bytes) continue;
    read.length = std::min(read.length, request.device_bytes - read.offset);
    builder.add(read);
  }
  return list;
}

namespace {

Result<BlockTrace> trace_of(const RecordRequest& request, std::optional<BlockTrace> made) {
  if (!request.use_trace) return fail(ErrorKind::refused, "the trace of block reads is not wanted");
  if (!made) return BlockTrace::start(request.disk);
  TRY(made->follow_reads(request.disk));
  return std::move(*made);
}

}  // namespace

Result<Recorder> Recorder::start(RecordRequest request, IsOwn is_own,
                                 std::optional<BlockTrace> made) {
  Recorder recorder(std::move(request), std::move(is_own));
  auto trace = trace_of(recorder.request_, std::move(made));
  if (trace) recorder.trace_.emplace(std::move(*trace));
  if (recorder.request_.mount_point.empty()) return recorder;
  if (const Ok watched =
          recorder.watch_files(recorder.request_.mount_point, recorder.request_.partition_offset);
      !watched && !trace)
    return fail(ErrorKind::refused, "nothing can be recorded here: " + trace.error().message() +
                                        "; " + watched.error().message());
  return recorder;
}

Ok Recorder::watch_files(const std::string& mount_point, std::uint64_t partition_offset) {
  request_.mount_point = mount_point;
  request_.partition_offset = partition_offset;
  if (trace_ && partition_offset >= request_.disk_offset)
    bitmaps_ =
        AllocatedBitmaps::of_disk(request_.disk_node, partition_offset - request_.disk_offset);
  struct stat root {};
  if (bitmaps_ && ::stat(mount_point.c_str(), &root) == 0)
    std::ignore = trace_->follow_allocations(root.st_dev);
  TRY_ASSIGN(auto opened, OpenedFiles::watch(mount_point));
  opened_.emplace(std::move(opened));
  return {};
}

Ok Recorder::poll() {
  if (opened_) TRY(opened_->take(places_));
  if (!trace_) return {};
  TRY_ASSIGN(const auto taken, trace_->take());
  for (const TracedEvent& event : taken)
    if (reads_.size() < kMostReads) std::visit([this](const auto& one) { keep(one); }, event);
  return {};
}

void Recorder::keep(const TracedRead& read) {
  const bool own = is_own_(read.thread);
  if (own && own_reads_ >= kMostOwnReads) forget_own_reads();
  own_reads_ += own ? 1 : 0;
  reads_.push_back({{read.device.offset + request_.disk_offset, read.device.length}, own});
}

void Recorder::keep(const TracedAllocation& allocation) {
  const auto group = bitmaps_ ? bitmaps_->new_group(allocation) : std::nullopt;
  if (!group || is_own_(allocation.thread)) return;
  const ByteRange bitmap = bitmaps_->bitmap_of(allocation.what, *group);
  if (bitmap.length > 0)
    reads_.push_back({{bitmap.offset + request_.partition_offset, bitmap.length}, false});
}

HotList Recorder::list() {
  if (!trace_) read_pages_in_memory();
  std::vector<ByteRange> ranges;
  for (const Read& read : reads_)
    if (is_of_session(read)) ranges.push_back(read.range);
  return make_hot_list(ranges, places_, request_);
}

/// Most of them are the warmer's, of blocks.
void Recorder::forget_own_reads() {
  std::erase_if(reads_, [this](const Read& read) { return !is_of_session(read); });
  own_reads_ = static_cast<std::size_t>(
      std::count_if(reads_.begin(), reads_.end(), [](const Read& read) { return read.own; }));
}

bool Recorder::is_of_session(const Read& read) const {
  if (!read.own) return true;
  if (!opened_ || read.range.offset < request_.partition_offset) return false;
  const ByteRange in_fs{read.range.offset - request_.partition_offset, read.range.length};
  // What is longer is no lookup's, but a block that the warmer reads whole.
  if (in_fs.length <= kMostXfsInodeRead && opened_->holds_inode(in_fs)) return true;
  const auto place = places_.at(in_fs.offset);
  return place && opened_->is_directory(place->path);
}

std::string Recorder::source() const {
  if (!trace_) return opened_ ? "opened files and pages in memory" : "";
  if (!opened_) return "trace";
  const auto missed = opened_->missed();
  return std::string("trace and opened files") +
         (missed > 0 ? ", " + std::to_string(missed) + " left out" : std::string());
}

/// Which pages of the opened files are in memory, in the order in which the files were opened.
void Recorder::read_pages_in_memory() {
  reads_.clear();
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const UniqueFd root(::open(request_.mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const std::string& path : places_.paths()) {
    const UniqueFd file = root ? open_plain(root.get(), path) : UniqueFd();
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size == 0)
      continue;
    const std::uint64_t size =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(status.st_size), kMostFileBytes);
    void* memory = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) continue;
    std::vector<unsigned char> resident((size + page - 1) / page);
    const bool told = ::mincore(memory, size, resident.data()) == 0;
    ::munmap(memory, size);
    const auto extents = extents_of(file.get(), kMostFileExtents);
    if (!told || !extents) continue;
    for (const FileExtent& extent : *extents)
      for (std::uint64_t at = 0; at < extent.place.length; at += page) {
        const std::uint64_t index = (extent.file_offset + at) / page;
        if (index < resident.size() && (resident[index] & 1) != 0 && reads_.size() < kMostReads)
          reads_.push_back({{request_.partition_offset + extent.place.offset + at, page}});
      }
  }
}

}  // namespace warmroot::warm
