#include "bootstrap/warm/file_finder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <system_error>

#include "bootstrap/warm/elf_needs.hpp"
#include "bootstrap/warm/file_places.hpp"
#include "bootstrap/warm/own_threads.hpp"

namespace warmroot::warm {
namespace {

constexpr std::size_t kMostEntries = 4096;  // of one directory
constexpr int kMostLookedAt = 65'536;    // of one directory's, for those whose names end as wanted
constexpr std::uint32_t kFirstRank = 1;  // of what the root's users want
/// A lookup that the volume answered without a first touch costs sessions a read of those that it
/// is allowed a second (gp3: 3,000), and so many of ours took them all: each read of a session
/// waited for ten of them. So a thread rests for so many times as long as it was quick; then a
/// dozen of them are like two, and those that wait for first touches a dozen still.
constexpr int kRestPart = 5;
/// One that took less read nothing; one that took more waited for a first touch, or for a queue.
constexpr std::chrono::microseconds kFromMemory{200};
constexpr std::chrono::microseconds kFirstTouch{20'000};
constexpr std::string_view kAllIn = "/*";
constexpr std::string_view kAllBelow = "/**";
/// Where distributions keep what programs are linked with; the loader's own cache is not parsed.
constexpr const char* kLibraryDirectories[] = {
    "/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib64/", "/usr/lib/"};

/// An interpreter's extension: whoever imports it has its libraries read next. A link of that name
/// is for compilers.
bool is_module(const dirent& entry) {
  return entry.d_type != DT_LNK && std::string_view(entry.d_name).ends_with(".so");
}

std::string read_at(int fd, ByteRange range) {
  std::string bytes(range.length, '\0');
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(range.offset));
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

/// The part of an extent that lies in [from, end) of its file.
ByteRange cut(const FileExtent& extent, std::uint64_t from, std::uint64_t end) {
  const std::uint64_t start = std::max(extent.file_offset, from);
  const std::uint64_t stop = std::min(extent.file_offset + extent.place.length, end);
  if (stop <= start) return {};
  return {extent.place.offset + (start - extent.file_offset), stop - start};
}

}  // namespace

FileFinder::FileFinder(std::string mount_point, std::vector<WantedFile> files,
                       std::function<WantedOfRoot()> of_root, unsigned at_once)
    : root_(::open(mount_point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  want_next(std::move(files));
  if (of_root) busy_ = 1;  // ask's
  for (unsigned i = 0; root_ && i < at_once; ++i) try {
      threads_.emplace_back([this, of_root = std::exchange(of_root, {})](std::stop_token stop) {
        enlist_own_thread();
        if (of_root) ask(of_root);
        work(stop);
      });
    } catch (const std::system_error&) {
      break;  // fewer threads do, and none is found by is_done
    }
  if (!threads_.empty()) return;
  wanted_.clear();
  busy_ = 0;
}

void FileFinder::ask(const std::function<WantedOfRoot()>& of_root) {
  WantedOfRoot files = of_root();
  const std::lock_guard lock(mutex_);
  want_at(std::move(files.first), kFirstRank);
  want_next(std::move(files.last));
  --busy_;
  changed_.notify_all();
}

FileFinder::~FileFinder() {
  stop();
}

void FileFinder::stop() {
  for (auto& thread : threads_) thread.request_stop();
}

std::vector<FoundFile> FileFinder::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(found_, {});
}

void FileFinder::read_needs(const std::string& program, std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  --programs_;
  const auto place = std::ranges::lower_bound(wanted_, rank, {}, &Wanted::rank);
  wanted_.insert(place, {{program}, rank, true});
  changed_.notify_all();
}

void FileFinder::forget_needs() {
  const std::lock_guard lock(mutex_);
  --programs_;
  changed_.notify_all();
}

bool FileFinder::is_done() const {
  const std::lock_guard lock(mutex_);
  return wanted_.empty() && busy_ == 0 && programs_ == 0;
}

void FileFinder::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto is_next = [this] { return !wanted_.empty() || (busy_ == 0 && programs_ == 0); };
    if (!changed_.wait(lock, stop, is_next)) return;
    if (wanted_.empty()) return;
    const Wanted wanted = std::move(wanted_.front());
    wanted_.pop_front();
    ++busy_;
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    find(wanted, stop);
    const auto took = std::chrono::steady_clock::now() - start;
    lock.lock();
    if (--busy_ == 0) changed_.notify_all();
    if (took > kFromMemory && took < kFirstTouch)
      rest_.wait_for(lock, stop, took * kRestPart, [] { return false; });
  }
}

UniqueFd FileFinder::open_inside(const std::string& path) const {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  const UniqueFd place(
      static_cast<int>(::syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof how)));
  return place ? reopen_plain(place.get()) : UniqueFd();
}

void FileFinder::find(const Wanted& wanted, const std::stop_token& stop) {
  const WantedFile& file = wanted.file;
  if (file.path.ends_with(kAllBelow) || file.path.ends_with(kAllIn)) {
    const std::string path = file.path.substr(0, file.path.rfind('/') + 1);
    const UniqueFd directory = open_inside(path);
    if (directory && !stop.stop_requested()) list_directory(directory.get(), path, wanted);
    return;
  }
  const UniqueFd fd = open_inside(file.path);
  if (!fd || stop.stop_requested()) return;
  if (wanted.needs) return want_libraries(fd.get(), wanted.rank);
  const auto extents = extents_of(fd.get(), kMostFileExtents);
  if (!extents) return;
  const std::uint64_t length = std::min(file.length, kMostFileRead);
  const std::uint64_t end = file.offset + std::min(length, UINT64_MAX - file.offset);
  FoundFile found{{}, wanted.rank, {}};
  for (const FileExtent& extent : *extents)
    if (const ByteRange range = cut(extent, file.offset, end); range.length > 0)
      found.ranges.push_back(range);
  if (found.ranges.empty() && !file.is_program) return;
  if (file.is_program) found.program = file.path;
  const std::lock_guard lock(mutex_);
  if (file.is_program) ++programs_;
  found_.push_back(std::move(found));
}

/// `path` is the directory's, and ends with a slash. The length holds for its own files alone: what
/// is wanted in part does not count against kMostWanted, and a tree may be large.
void FileFinder::list_directory(int directory, const std::string& path, const Wanted& wanted) {
  const int again = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);
  DIR* stream = again >= 0 ? ::fdopendir(again) : nullptr;
  if (stream == nullptr) {
    if (again >= 0) ::close(again);
    return;
  }
  const bool deep = wanted.file.path.ends_with(kAllBelow);
  const std::string& ending = wanted.file.ending;
  std::vector<WantedFile> files;
  for (int left = kMostLookedAt; left > 0 && files.size() < kMostEntries; --left) {
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (deep && entry->d_type == DT_DIR && name[0] != '.')
      files.push_back({path + name + std::string(kAllBelow), 0, UINT64_MAX, false, ending});
    else if (entry->d_type != DT_REG && entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
      continue;
    else if (name.ends_with(ending))
      files.push_back({path + name, 0, deep ? UINT64_MAX : wanted.file.length, is_module(*entry)});
  }
  ::closedir(stream);
  std::sort(files.begin(), files.end(),
            [](const WantedFile& a, const WantedFile& b) { return a.path < b.path; });
  want(std::move(files), wanted.rank);
}

void FileFinder::want_libraries(int file, std::uint32_t rank) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return;
  const ElfNeeds needs = elf_needs([file](ByteRange range) { return read_at(file, range); });
  std::vector<WantedFile> files;
  if (needs.interpreter.starts_with('/')) files.push_back({needs.interpreter});
  for (const std::string& library : needs.libraries) {
    // A path is relative to who knows what.
    if (library.size() > NAME_MAX || library.find('/') != std::string::npos) continue;
    for (const char* directory : kLibraryDirectories)
      files.push_back({directory + library, 0, UINT64_MAX, true});
  }
  want(std::move(files), rank);
}

/// Under the lock. Ranges of one file may be many; a whole file is looked up once, and once more
/// where it turns out to be a program.
std::vector<WantedFile> FileFinder::not_known(std::vector<WantedFile> files) {
  std::erase_if(files, [this](const WantedFile& file) {
    if (!file.path.starts_with('/')) return true;
    const bool full = known_.size() >= kMostWanted || known_bytes_ >= kMostWantedBytes;
    if (file.length != UINT64_MAX) return full;
    const auto known = known_.find(file.path);
    if (known != known_.end()) return !file.is_program || std::exchange(known->second, true);
    if (full) return true;
    known_.emplace(file.path, file.is_program);
    known_bytes_ += file.path.size();
    return false;
  });
  return files;
}

/// What another file leads to, of its rank, before what else has that.
void FileFinder::want(std::vector<WantedFile> files, std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  want_at(std::move(files), rank);
  changed_.notify_all();
}

/// Under the lock.
void FileFinder::want_at(std::vector<WantedFile> files, std::uint32_t rank) {
  std::vector<Wanted> wanted;
  for (WantedFile& file : not_known(std::move(files))) wanted.push_back({std::move(file), rank});
  wanted_.insert(std::ranges::lower_bound(wanted_, rank, {}, &Wanted::rank),
                 std::make_move_iterator(wanted.begin()), std::make_move_iterator(wanted.end()));
}

/// Behind all others. Under the lock, or before there are threads.
void FileFinder::want_next(std::vector<WantedFile> files) {
  for (WantedFile& file : not_known(std::move(files)))
    wanted_.push_back({std::move(file), next_rank_++});
}

}  // namespace warmroot::warm
