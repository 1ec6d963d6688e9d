#include "bootstrap/warm/file_places.hpp"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

namespace warmroot::warm {
namespace {

/// Files and directories of one recording; a search through the whole disk would open them all.
constexpr std::size_t kMostFiles = 8'192;
constexpr unsigned kExtentsPerCall = 64;

/// By the name: sshd starts the person's, whatever else it is asked for.
bool is_shell(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return (name.ends_with("sh") && name != "ssh") || name == "busybox" || name == "nu";
}

/// The path by which the open file was found; empty when it has none any more.
std::string path_of(int fd) {
  char text[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), text, sizeof text);
  if (length <= 0 || length == static_cast<ssize_t>(sizeof text) || text[0] != '/') return {};
  std::string path(text, static_cast<std::size_t>(length));
  constexpr std::string_view kDeleted = " (deleted)";
  return path.ends_with(kDeleted) ? std::string() : path;
}

/// Of the file system mounted there, where it is one.
std::optional<XfsGeometry> xfs_geometry(const std::string& mount_point) {
  const UniqueFd root(::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statfs filesystem {};
  XfsGeometry geometry{};
  if (!root || ::fstatfs(root.get(), &filesystem) != 0 || filesystem.f_type != XFS_SUPER_MAGIC ||
      ::ioctl(root.get(), kXfsGeometry, &geometry) != 0)
    return std::nullopt;
  return geometry;
}

/// One event by handle. The kernel's handles have 128 bytes at most (MAX_HANDLE_SZ).
struct Event {
  fanotify_event_metadata metadata{};
  alignas(8) char info[sizeof(fanotify_event_info_fid) + sizeof(file_handle) + MAX_HANDLE_SZ] = {};
};

}  // namespace

Result<std::vector<FileExtent>> extents_of(int fd, std::size_t most) {
  alignas(fiemap) char memory[sizeof(fiemap) + kExtentsPerCall * sizeof(fiemap_extent)];
  auto& call = *reinterpret_cast<fiemap*>(memory);
  std::vector<FileExtent> found;
  // What btrfs calls physical is an address in its own space, which lies anywhere on its devices.
  struct statfs filesystem {};
  if (::fstatfs(fd, &filesystem) != 0) return fail_errno("fstatfs");
  if (filesystem.f_type == BTRFS_SUPER_MAGIC) return found;
  std::uint64_t from = 0;
  while (found.size() < most) {
    std::memset(memory, 0, sizeof memory);
    call.fm_start = from;
    call.fm_length = FIEMAP_MAX_OFFSET - from;
    call.fm_extent_count = kExtentsPerCall;
    if (::ioctl(fd, FS_IOC_FIEMAP, memory) != 0) return fail_errno("FS_IOC_FIEMAP");
    const unsigned count = std::min(call.fm_mapped_extents, kExtentsPerCall);
    for (unsigned i = 0; i < count && found.size() < most; ++i) {
      const fiemap_extent& extent = call.fm_extents[i];
      constexpr std::uint32_t kNowhere = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC |
                                         FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_ENCODED;
      if ((extent.fe_flags & kNowhere) == 0 && extent.fe_length > 0)
        found.push_back({extent.fe_logical, {extent.fe_physical, extent.fe_length}});
      from = extent.fe_logical + extent.fe_length;
      if ((extent.fe_flags & FIEMAP_EXTENT_LAST) != 0) return found;
    }
    if (count == 0) break;
  }
  return found;
}

UniqueFd reopen_plain(int place) {
  struct stat status {};
  if (::fstat(place, &status) != 0 || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)))
    return UniqueFd();
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(place)).c_str(),
                         O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOATIME));
}

UniqueFd open_plain(int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  const auto start = std::min(path.find_first_not_of('/'), path.size());
  const std::string inside = start == path.size() ? "." : path.substr(start);
  const UniqueFd place(
      static_cast<int>(::syscall(SYS_openat2, root, inside.c_str(), &how, sizeof how)));
  return place ? reopen_plain(place.get()) : UniqueFd();
}

bool PlaceMap::add(const std::string& path, const FileExtent& extent) {
  const auto known_path = numbers_.find(path);
  const std::size_t bytes = known_path == numbers_.end() ? path.size() : 0;
  if (places_.size() >= kMostPlaces || path_bytes_ + bytes > kMostPathBytes) return false;
  path_bytes_ += bytes;
  const auto [known, is_new] =
      numbers_.try_emplace(path, static_cast<std::uint32_t>(paths_.size()));
  if (is_new) paths_.push_back(path);
  const std::uint64_t end = extent.place.offset + extent.place.length;
  auto next = places_.lower_bound(extent.place.offset);
  if (next != places_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.length > extent.place.offset)
      before->second.length = extent.place.offset - before->first;
  }
  while (next != places_.end() && next->first < end) next = places_.erase(next);
  places_[extent.place.offset] = {extent.place.length, extent.file_offset, known->second};
  return true;
}

std::optional<FilePlace> PlaceMap::at(std::uint64_t offset) const {
  auto after = places_.upper_bound(offset);
  if (after == places_.begin()) return std::nullopt;
  const auto& [start, place] = *std::prev(after);
  if (offset - start >= place.length) return std::nullopt;
  return FilePlace{paths_[place.path], place.file_offset + (offset - start),
                   place.length - (offset - start)};
}

Result<OpenedFiles> OpenedFiles::watch(const std::string& mount_point) {
  OpenedFiles files;
  files.mount_point_ = mount_point;
  while (files.mount_point_.ends_with('/')) files.mount_point_.pop_back();
  files.group_.reset(::fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC | FAN_NONBLOCK,
                                     O_RDONLY | O_CLOEXEC));
  if (!files.group_) return fail_errno("watching which files are opened");
  if (::fanotify_mark(files.group_.get(), FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_OPEN | FAN_ONDIR,
                      AT_FDCWD, mount_point.c_str()) != 0)
    return fail_errno("watching which files of " + mount_point + " are opened");
  files.xfs_ = xfs_geometry(mount_point);
  return files;
}

Ok OpenedFiles::take(PlaceMap& places) {
  char buffer[16 * 1024];
  UniqueFd root;
  for (;;) {
    const ssize_t count = ::read(group_.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return {};
    if (count < 0) return fail_errno("reading which files were opened");
    if (count == 0) return {};
    if (!root) root.reset(::open(mount_point_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Events of odd lengths follow each other: each is copied to where it is aligned.
    for (std::size_t at = 0;
         at + sizeof(fanotify_event_metadata) <= static_cast<std::size_t>(count);) {
      Event event;
      std::memcpy(&event.metadata, buffer + at, sizeof event.metadata);
      const std::size_t length = event.metadata.event_len;
      if (length < sizeof event.metadata || length > static_cast<std::size_t>(count) - at) break;
      const std::size_t rest = std::min(length - sizeof event.metadata, sizeof event.info);
      std::memcpy(event.info, buffer + at + sizeof event.metadata, rest);
      at += length;
      if ((event.metadata.mask & FAN_Q_OVERFLOW) != 0)
        ++missed_;
      else if (event.metadata.pid != ::getpid() && root && rest >= sizeof(fanotify_event_info_fid))
        opened(root.get(), event.info, places);
    }
  }
}

void OpenedFiles::opened(int root, char* info_record, PlaceMap& places) {
  auto* info = reinterpret_cast<fanotify_event_info_fid*>(info_record);
  if (info->hdr.info_type != FAN_EVENT_INFO_TYPE_FID) return;
  auto* handle = reinterpret_cast<file_handle*>(info->handle);
  // An inode that is not in memory any more has no path; neither does a deleted one.
  const UniqueFd place(::open_by_handle_at(root, handle, O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!place || ::fstat(place.get(), &status) != 0 ||
      !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)))
    return;
  const bool is_program = S_ISREG(status.st_mode) && (status.st_mode & 0111) != 0;
  if (!is_program && seen_.contains(status.st_ino)) return;
  std::string path = path_of(place.get());
  if (is_program && is_shell(path)) ++shells_;
  if (seen_.contains(status.st_ino)) return;
  if (path == mount_point_) path = "/";
  // A session's own root is another mount of it, or the same one under another name.
  if (path.starts_with(mount_point_ + "/")) path.erase(0, mount_point_.size());
  if (path.empty() || seen_.size() + directories_.size() >= kMostFiles) {
    ++missed_;
    return;
  }
  seen_.insert(status.st_ino);
  note_inode(status.st_ino);
  const UniqueFd file = reopen_plain(place.get());
  const auto extents = file ? extents_of(file.get(), kMostFileExtents)
                            : Result<std::vector<FileExtent>>(std::vector<FileExtent>{});
  if (!extents) return;  // a file system without FIEMAP has no places to tell
  for (const FileExtent& extent : *extents)
    if (!places.add(path, extent)) ++missed_;
  note_directories(root, path, places);
}

void OpenedFiles::note_inode(std::uint64_t inode) {
  if (!xfs_) return;
  if (const auto at = xfs_inode_byte(*xfs_, inode)) inodes_at_.insert(*at);
}

/// Whoever opens a file has read the directories above it; nobody opens those.
void OpenedFiles::note_directories(int root, const std::string& path, PlaceMap& places) {
  for (auto slash = path.rfind('/'); slash != std::string::npos;
       slash = slash == 0 ? std::string::npos : path.rfind('/', slash - 1)) {
    const std::string directory = path.substr(0, std::max<std::size_t>(slash, 1));
    if (seen_.size() + directories_.size() >= kMostFiles || !directories_.insert(directory).second)
      return;
    const UniqueFd fd = open_plain(root, directory);
    if (struct stat status{}; fd && ::fstat(fd.get(), &status) == 0) note_inode(status.st_ino);
    const auto extents = fd ? extents_of(fd.get(), kMostFileExtents)
                            : Result<std::vector<FileExtent>>(std::vector<FileExtent>{});
    if (!extents) continue;
    for (const FileExtent& extent : *extents)
      if (!places.add(directory, extent)) ++missed_;
  }
}

}  // namespace warmroot::warm
