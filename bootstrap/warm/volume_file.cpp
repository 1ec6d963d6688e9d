#include "bootstrap/warm/volume_file.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace warmroot::warm {
namespace {

constexpr mode_t kDirectoryMode = 0755;
constexpr mode_t kFileMode = 0600;

/// NO_XDEV: the file describes this volume, so it must not land on something mounted inside the
/// root.
UniqueFd open_inside(int root, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  return UniqueFd(static_cast<int>(
      ::syscall(SYS_openat2, root, path.empty() ? "." : path.c_str(), &how, sizeof how)));
}

Ok write_all(int fd, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("writing");
    done += static_cast<std::size_t>(count);
  }
  if (::fsync(fd) != 0) return fail_errno("syncing");
  return {};
}

}  // namespace

Result<VolumeFile> VolumeFile::at(std::string mount_point, std::string path, std::string what) {
  VolumeFile file;
  file.mount_point_ = std::move(mount_point);
  file.what_ = std::move(what);
  path.erase(0, path.find_first_not_of('/'));
  const std::size_t slash = path.rfind('/');
  file.directory_ = slash == std::string::npos ? "" : path.substr(0, slash);
  file.name_ = slash == std::string::npos ? path : path.substr(slash + 1);
  file.temporary_ = file.name_ + ".new";
  if (file.name_.empty()) return fail(ErrorKind::misconfigured, file.what_ + "'s path has no name");
  struct stat status {};
  if (::stat(file.mount_point_.c_str(), &status) != 0) return fail_errno(file.mount_point_);
  file.device_ = status.st_dev;
  return file;
}

void VolumeFile::write_beside_others() {
  temporary_ = name_ + "." + std::to_string(::getpid()) + ".new";
}

Result<UniqueFd> VolumeFile::open_root() const {
  UniqueFd root(::open(mount_point_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!root || ::fstat(root.get(), &status) != 0) return fail_errno(mount_point_);
  if (status.st_dev != device_)
    return fail(ErrorKind::gone, "the root is not mounted at " + mount_point_ + " any more");
  return root;
}

Result<UniqueFd> VolumeFile::open_directory(bool create) const {
  TRY_ASSIGN(const UniqueFd root, open_root());
  UniqueFd directory = open_inside(root.get(), directory_, O_RDONLY | O_DIRECTORY);
  if (directory) return directory;
  if (errno != ENOENT || !create) return fail_errno(what_ + "'s directory");
  std::size_t end = 0;
  UniqueFd parent = open_inside(root.get(), "", O_PATH | O_DIRECTORY);
  while (end != std::string::npos) {
    const std::size_t start = end == 0 ? 0 : end + 1;
    end = directory_.find('/', start);
    const std::string part = directory_.substr(start, end == std::string::npos ? end : end - start);
    if (::mkdirat(parent.get(), part.c_str(), kDirectoryMode) != 0 && errno != EEXIST)
      return fail_errno("making " + what_ + "'s directory");
    parent = open_inside(root.get(), directory_.substr(0, end), O_RDONLY | O_DIRECTORY);
    if (!parent) return fail_errno(what_ + "'s directory");
  }
  return parent;
}

Result<std::optional<std::string>> VolumeFile::load(std::uint64_t limit) const {
  auto directory = open_directory(false);
  if (!directory) {
    if (directory.error().code == "ENOENT") return std::nullopt;
    return fail(std::move(directory).error());
  }
  // NONBLOCK: a FIFO in its place must not hang the warmer.
  const UniqueFd file(
      ::openat(directory->get(), name_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) return fail_errno("opening " + what_);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail_errno(what_);
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) > limit)
    return fail(ErrorKind::misconfigured, what_ + " is no file of the expected size");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("reading " + what_);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

Ok VolumeFile::save(const std::string& bytes) const {
  TRY_ASSIGN(const UniqueFd directory, open_directory(true));
  ::unlinkat(directory.get(), temporary_.c_str(),
             0);  // left by a crash; O_EXCL says if it is still there
  const UniqueFd file(::openat(directory.get(), temporary_.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file) return fail_errno("making " + what_);
  if (auto written = write_all(file.get(), bytes); !written) {
    ::unlinkat(directory.get(), temporary_.c_str(), 0);
    return fail(std::move(written).error().within(what_));
  }
  if (::renameat(directory.get(), temporary_.c_str(), directory.get(), name_.c_str()) != 0)
    return fail_errno("replacing " + what_);
  if (::fsync(directory.get()) != 0) return fail_errno("syncing " + what_ + "'s directory");
  return {};
}

}  // namespace warmroot::warm
