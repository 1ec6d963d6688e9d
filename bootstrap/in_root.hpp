// Everything inside the volume is opened here: relative to its root, symbolic links kept inside
// (openat2 RESOLVE_IN_ROOT), no magic links. The volume's content is not trusted: `run -> /etc`
// must not reach the base.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::bootstrap {

/// A directory that stands for "/". Holds the file system: let go of it before unmounting.
/// Whose file somebody reads.
struct FileOwner {
  uid_t uid = 0;
  gid_t gid = 0;
  bool alone_in_group = false;  ///< nobody else is in that group
};

class RootDirectory {
 public:
  static Result<RootDirectory> open(const std::string& path);

  /// openat2 relative to the root; `flags` are open(2)'s, O_CLOEXEC is added. Errors: errno's.
  Result<UniqueFd> open_inside(const std::string& path, int flags, mode_t mode = 0) const;
  /// A regular file, for reading; looked at before, because opening a device can already do
  /// something. Errors: refused when it is no regular file.
  Result<UniqueFd> open_file(const std::string& path) const;
  /// A regular file's whole content. Errors: refused when it is no regular file, broken when longer
  /// than `limit`.
  Result<std::string> read(const std::string& path, std::size_t limit) const;
  /// The same, read as this user, and only a file of theirs or root's on a disk: a link of theirs
  /// must not make us publish another's file, nor what the kernel tells root alone. And only where
  /// nobody but its owner can write it or a directory above it up to `home` (or to the root, where
  /// it lies elsewhere), and these are theirs or root's, as with sshd's StrictModes on Debian: a
  /// group of the owner's alone may write. Errors:
  /// refused also for that; retry_later while somebody holds a lease on the file or moves it.
  Result<std::string> read_as(const std::string& path, const std::string& home, std::size_t limit,
                              const FileOwner& owner) const;
  /// Writes a file by create + rename in its own directory; both are synced, so that a power cut
  /// loses neither the content nor the name. The file's directory has to exist.
  Ok write(const std::string& path, std::string_view text, mode_t mode) const;
  /// Removes a name, which is no directory's; one that is not there is success. The directory is
  /// not synced.
  Ok remove(const std::string& path) const;
  /// Creates the directory and its missing parents.
  Ok make_directories(const std::string& path, mode_t mode) const;
  /// A link of the volume's must not make us write to what is mounted inside it (the base's /dev,
  /// /tmp). Errors: refused when the directory lies on another mount; errno's when it is not there.
  Ok check_same_mount(const std::string& directory) const;
  /// Makes sure that opening `path` leads to a regular file, creating what a dangling link points
  /// at. Errors: refused where that would be in neither the volume nor its new /run.
  Ok make_file(const std::string& path) const;
  /// Makes a symbolic link in a directory that is there. One that is there already is success.
  Ok make_link(const std::string& text, const std::string& path) const;
  bool is_directory(const std::string& path) const;
  bool is_executable(const std::string& path) const;
  int fd() const { return fd_.get(); }

 private:
  using FileCheck = std::function<Ok(int fd, const struct stat&)>;
  Result<UniqueFd> open_file_if(const std::string& path, const FileCheck& check) const;
  Result<std::string> read_if(const std::string& path, std::size_t limit,
                              const FileCheck& check) const;
  Ok check_directories_of(int file, const struct stat& file_facts, const std::string& home,
                          const FileOwner& owner) const;
  Ok check_new_place(const std::string& path) const;
  explicit RootDirectory(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// e_machine of an ELF header, in the byte order that the header itself names; nullopt when it is
/// no ELF file.
std::optional<std::uint16_t> elf_machine(std::string_view header);
/// "x86-64", "arm64", or "machine N".
std::string machine_name(std::uint16_t machine);
/// e_machine of programs that this kernel runs natively.
std::uint16_t native_machine();

/// A file system is a root when it has etc/os-release (or usr/lib/os-release) and an executable
/// bin/sh of this machine's architecture. Errors: refused, one sentence; with code EUCLEAN where
/// its file system is damaged.
Ok check_is_root(const RootDirectory& root);

/// PRETTY_NAME of an os-release text; empty when absent.
std::string pretty_name(std::string_view os_release);

}  // namespace warmroot::bootstrap
