// Which file a byte of the disk belongs to: the files that sessions open are seen as they open them
// (fanotify, by handle), their places asked once (FIEMAP), their directories' too. Called by the
// recorder, which joins this with what was read of the disk. Holds nothing of the mount between
// calls: events by handle keep no mount busy, as those with a descriptor would.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/xfs_geometry.hpp"

namespace warmroot::warm {

struct FilePlace {
  std::string path;          ///< absolute, inside the root
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t length = 0;  ///< so many bytes lie together
};

struct FileExtent {
  std::uint64_t file_offset = 0;
  ByteRange place;  ///< relative to the file system's start

  bool operator==(const FileExtent&) const = default;
};

/// Pieces of one file that are worth knowing: one in more is a file whose place helps nobody.
inline constexpr std::size_t kMostFileExtents = 64;

/// The extents of an open file or directory on its file system's device, at most `most`; holes,
/// inline data and what has no place yet are left out. Errors: the ioctl's.
Result<std::vector<FileExtent>> extents_of(int fd, std::size_t most);

/// What a PlaceMap holds at most; sessions decide how many files they open.
inline constexpr std::size_t kMostPlaces = 65'536;
inline constexpr std::size_t kMostPathBytes = 2 * 1024 * 1024;

/// Places of many files, by where they lie. Pure.
class PlaceMap {
 public:
  /// Later ones win where they overlap: the place was freed and used anew. False when it is full.
  bool add(const std::string& path, const FileExtent& extent);
  /// The file at this byte (relative to the file system's start), and how far it goes on there.
  std::optional<FilePlace> at(std::uint64_t offset) const;
  /// In the order in which they were added first.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  struct Place {
    std::uint64_t length = 0;
    std::uint64_t file_offset = 0;
    std::uint32_t path = 0;  // in paths_
  };
  std::map<std::uint64_t, Place> places_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> paths_;
  std::size_t path_bytes_ = 0;
};

/// What an O_PATH descriptor stands for, opened for reading; invalid unless it is a regular file or
/// a directory: a device or a pipe does something when it is opened.
UniqueFd reopen_plain(int place);

/// Opens a regular file or directory inside the root, following no link and entering no other
/// mount: sessions own the names. Nothing else is ever opened. Invalid where it is something else.
UniqueFd open_plain(int root, const std::string& path);

class OpenedFiles {
 public:
  /// Watches opens of the file system mounted at `mount_point`, in any mount namespace.
  /// Errors: refused where the kernel has no fanotify by handle (5.1) or does not let us.
  static Result<OpenedFiles> watch(const std::string& mount_point);

  /// Takes what was opened since the last call into `places`; does not wait. Errors: fanotify's.
  Ok take(PlaceMap& places);

  /// One above a file that was opened.
  bool is_directory(const std::string& path) const { return directories_.contains(path); }
  /// In a range that begins and ends so (relative to the file system's start) lies the inode of a
  /// file that was opened, or of a directory above one. Known of xfs alone: ext's tables are read
  /// behind every hot list.
  bool holds_inode(ByteRange range) const {
    const auto first = inodes_at_.lower_bound(range.offset);
    return first != inodes_at_.end() && *first - range.offset < range.length;
  }
  /// Opens of programs whose names are those of shells, by which sessions begin; some that follow
  /// each other closely count as one.
  std::uint64_t shells() const { return shells_; }
  /// Opens whose file could not be told, and what did not fit any more.
  std::size_t missed() const { return missed_; }

 private:
  OpenedFiles() = default;
  void opened(int root, char* info_record, PlaceMap& places);
  void note_directories(int root, const std::string& path, PlaceMap& places);
  void note_inode(std::uint64_t inode);

  UniqueFd group_;
  std::string mount_point_;
  std::set<std::uint64_t> seen_;  // inodes
  std::set<std::string> directories_;
  std::optional<XfsGeometry> xfs_;
  std::set<std::uint64_t> inodes_at_;  // first bytes
  std::uint64_t shells_ = 0;
  std::size_t missed_ = 0;
};

}  // namespace warmroot::warm
