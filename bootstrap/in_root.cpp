#include "bootstrap/in_root.hpp"

#include <elf.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {
namespace {

/// The kernel gives up after 40 links too.
constexpr int kMaxLinks = 40;
/// A path of the kernel's greatest length can have 2048 parts.
constexpr int kMostParents = 2048;
constexpr std::size_t kMaxOsRelease = 64 * 1024;
constexpr std::size_t kMostPrettyName = 200;

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

std::string leaf_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string relative(const std::string& path) {
  const std::size_t first = path.find_first_not_of('/');
  return first == std::string::npos ? std::string(".") : path.substr(first);
}

/// Its mount's number; 0 before Linux 5.8.
Result<std::uint64_t> mount_of(int fd) {
  struct statx facts {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &facts) != 0) return fail_errno("statx");
  return (facts.stx_mask & STATX_MNT_ID) != 0 ? std::uint64_t{facts.stx_mnt_id} : 0;
}

/// Where it lies now, without links, as this process sees it.
Result<std::string> path_of(int fd) {
  char path[4096];
  const ssize_t length =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  if (length < 0) return fail_errno("looking up a path in the volume");
  return std::string(path, static_cast<std::size_t>(length));
}

bool is_same(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// sshd's StrictModes, with Debian's exception.
Ok check_theirs(const std::string& path, const struct stat& facts, const FileOwner& owner) {
  if (facts.st_uid != owner.uid && facts.st_uid != 0)
    return fail(ErrorKind::refused, "/" + path + " in the volume is somebody else's");
  const bool is_own_group = owner.alone_in_group && facts.st_gid == owner.gid;
  if ((facts.st_mode & (is_own_group ? S_IWOTH : S_IWGRP | S_IWOTH)) != 0)
    return fail(ErrorKind::refused,
                "/" + path + " in the volume can be written by others than its owner");
  return {};
}

}  // namespace

Result<RootDirectory> RootDirectory::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno("opening " + path);
  return RootDirectory(std::move(fd));
}

Result<UniqueFd> RootDirectory::open_inside(const std::string& path, int flags, mode_t mode) const {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const std::string inside = relative(path);
  UniqueFd fd;
  do {  // EAGAIN: something was renamed while the kernel walked the path
    fd.reset(static_cast<int>(::syscall(SYS_openat2, fd_.get(), inside.c_str(), &how, sizeof how)));
  } while (!fd && (errno == EAGAIN || errno == EINTR));
  if (!fd) return fail_errno("opening /" + inside + " in the volume");
  return fd;
}

Result<UniqueFd> RootDirectory::open_file_if(const std::string& path,
                                             const FileCheck& check) const {
  // Opening a device can already do something (rewind, arm a watchdog): look before opening.
  TRY_ASSIGN(const UniqueFd found, open_inside(path, O_PATH));
  struct stat facts {};
  if (::fstat(found.get(), &facts) != 0) return fail_errno("stat of /" + path + " in the volume");
  if (!S_ISREG(facts.st_mode))
    return fail(ErrorKind::refused, "/" + path + " in the volume is no regular file");
  TRY(check(found.get(), facts));
  const std::string reopened = "/proc/self/fd/" + std::to_string(found.get());
  UniqueFd file(::open(reopened.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!file) return fail_errno("opening /" + path + " in the volume");
  return file;
}

Result<UniqueFd> RootDirectory::open_file(const std::string& path) const {
  return open_file_if(path, [](int, const struct stat&) { return Ok{}; });
}

Result<std::string> RootDirectory::read_if(const std::string& path, std::size_t limit,
                                           const FileCheck& check) const {
  TRY_ASSIGN(const UniqueFd file, open_file_if(path, check));
  return read_all(file.get(), limit, "/" + path + " in the volume");
}

Result<std::string> RootDirectory::read(const std::string& path, std::size_t limit) const {
  return read_if(path, limit, [](int, const struct stat&) { return Ok{}; });
}

namespace {

/// What this thread may reach is what the user may, and no group of root's; of others in this
/// process nothing changes, as glibc's setgroups would.
class AsUser {
 public:
  AsUser(uid_t uid, gid_t gid) {
    const int count = ::getgroups(0, nullptr);
    groups_.resize(static_cast<std::size_t>(std::max(count, 0)));
    const int got = count > 0 ? ::getgroups(count, groups_.data()) : 0;
    groups_.resize(static_cast<std::size_t>(std::max(got, 0)));
    ::syscall(SYS_setgroups, 0, nullptr);
    ::setfsgid(gid);
    ::setfsuid(uid);
  }
  ~AsUser() {
    ::setfsuid(0);
    ::setfsgid(0);
    ::syscall(SYS_setgroups, groups_.size(), groups_.data());
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;

 private:
  std::vector<gid_t> groups_;
};

bool is_on_disk(int fd) {
  struct statfs facts {};
  return ::fstatfs(fd, &facts) == 0 &&
         (facts.f_type == EXT4_SUPER_MAGIC || facts.f_type == XFS_SUPER_MAGIC ||
          facts.f_type == BTRFS_SUPER_MAGIC);
}

}  // namespace

/// Walks up from the directory that has the file now, by descriptors: names could be changed behind
/// the look.
Ok RootDirectory::check_directories_of(int file, const struct stat& file_facts,
                                       const std::string& home, const FileOwner& owner) const {
  TRY_ASSIGN(const std::string whole, path_of(file));
  TRY_ASSIGN(const std::string root, path_of(fd_.get()));
  const std::string path = relative(whole.substr(std::min(root.size(), whole.size())));
  std::string name = parent_of(path);
  TRY_ASSIGN(UniqueFd directory, open_inside(name, O_PATH | O_DIRECTORY));
  struct stat entry {};
  if (::fstatat(directory.get(), leaf_of(path).c_str(), &entry, AT_SYMLINK_NOFOLLOW) != 0 ||
      !is_same(entry, file_facts))
    return fail(ErrorKind::retry_later, "a file in the volume was moved while it was looked at");
  TRY_ASSIGN(const UniqueFd end, open_inside(home, O_PATH | O_DIRECTORY));
  struct stat end_facts {};
  struct stat root_facts {};
  if (::fstat(end.get(), &end_facts) != 0 || ::fstat(fd_.get(), &root_facts) != 0)
    return fail_errno("stat of " + home + " in the volume");
  for (int parents = 0; parents < kMostParents; ++parents) {
    struct stat facts {};
    if (::fstat(directory.get(), &facts) != 0) return fail_errno("stat in the volume");
    TRY(check_theirs(without_controls(name), facts, owner));
    if (is_same(facts, end_facts) || is_same(facts, root_facts)) return {};
    directory.reset(::openat(directory.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fail_errno("opening a directory of the volume");
    name = parent_of(name);
  }
  return fail(ErrorKind::refused, "a file in the volume lies too deep");
}

Result<std::string> RootDirectory::read_as(const std::string& path, const std::string& home,
                                           std::size_t limit, const FileOwner& owner) const {
  const AsUser user(owner.uid, owner.gid);
  return read_if(path, limit, [&](int fd, const struct stat& facts) -> Ok {
    TRY(check_theirs(path, facts, owner));
    if (!is_on_disk(fd))
      return fail(ErrorKind::refused, "/" + path + " in the volume is not on a disk");
    return check_directories_of(fd, facts, home, owner);
  });
}

Ok RootDirectory::write(const std::string& path, std::string_view text, mode_t mode) const {
  TRY_ASSIGN(const UniqueFd directory, open_inside(parent_of(path), O_PATH | O_DIRECTORY));
  const std::string leaf = leaf_of(path), temporary = leaf + ".new";
  ::unlinkat(directory.get(), temporary.c_str(), 0);
  const UniqueFd file(::openat(directory.get(), temporary.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file) return fail_errno("creating /" + path + " in the volume");
  TRY(write_fully(file.get(), text, path));
  if (::fsync(file.get()) != 0 ||
      ::renameat(directory.get(), temporary.c_str(), directory.get(), leaf.c_str()) != 0)
    return fail_errno("replacing /" + path + " in the volume");
  // The new name is durable only with its directory, and O_PATH cannot be synced.
  const UniqueFd readable(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!readable || ::fsync(readable.get()) != 0)
    return fail_errno("syncing the directory of /" + path + " in the volume");
  return {};
}

Ok RootDirectory::remove(const std::string& path) const {
  TRY_ASSIGN(const UniqueFd directory, open_inside(parent_of(path), O_PATH | O_DIRECTORY));
  if (::unlinkat(directory.get(), leaf_of(path).c_str(), 0) != 0 && errno != ENOENT)
    return fail_errno("removing /" + path + " in the volume");
  return {};
}

Ok RootDirectory::make_directories(const std::string& path, mode_t mode) const {
  const std::string inside = relative(path);
  std::size_t end = 0;
  while (end != std::string::npos) {
    end = inside.find('/', end + 1);
    const std::string part = inside.substr(0, end);
    if (is_directory(part)) continue;
    TRY_ASSIGN(const UniqueFd parent, open_inside(parent_of(part), O_PATH | O_DIRECTORY));
    if (::mkdirat(parent.get(), leaf_of(part).c_str(), mode) != 0 && errno != EEXIST)
      return fail_errno("making /" + part + " in the volume");
    if (!is_directory(part))
      return fail(ErrorKind::refused, "/" + part + " in the volume is not a directory");
    // mkdirat obeys the umask; the mode is part of the contract (1777 for tmp).
    if (end == std::string::npos && ::fchmodat(parent.get(), leaf_of(part).c_str(), mode, 0) != 0)
      return fail_errno("setting the mode of /" + part + " in the volume");
  }
  return {};
}

Ok RootDirectory::check_same_mount(const std::string& directory) const {
  TRY_ASSIGN(const UniqueFd inner, open_inside(directory, O_PATH | O_DIRECTORY));
  TRY_ASSIGN(const auto own, mount_of(inner.get()));
  TRY_ASSIGN(const auto whole, mount_of(fd_.get()));
  if (own != whole)
    return fail(ErrorKind::refused, "the volume's " + directory + " leads off the volume");
  return {};
}

/// Links of the volume's can lead into what is bound into it from the base.
Ok RootDirectory::check_new_place(const std::string& path) const {
  std::string directory = parent_of(path);
  while (directory != "." && !is_directory(directory)) directory = parent_of(directory);
  TRY_ASSIGN(const UniqueFd there, open_inside(directory, O_PATH | O_DIRECTORY));
  TRY_ASSIGN(const auto own, mount_of(there.get()));
  TRY_ASSIGN(const auto whole, mount_of(fd_.get()));
  if (own == whole) return {};
  // A file system of our own, made for this lease.
  if (const auto run = open_inside("run", O_PATH | O_DIRECTORY)) {
    TRY_ASSIGN(const auto runtime, mount_of(run->get()));
    if (own == runtime) return {};
  }
  return fail(ErrorKind::refused,
              "/" + path + " would be made on another file system than the volume's root");
}

Ok RootDirectory::make_file(const std::string& path) const {
  std::string current = relative(path);
  for (int links = 0; links < kMaxLinks; ++links) {
    if (auto there = open_inside(current, O_PATH)) {
      struct stat facts {};
      if (::fstat(there->get(), &facts) == 0 && S_ISREG(facts.st_mode)) return {};
      return fail(ErrorKind::refused, "/" + current + " in the volume is no regular file");
    }
    TRY(check_new_place(current));
    TRY(make_directories(parent_of(current), 0755));
    TRY_ASSIGN(const UniqueFd parent, open_inside(parent_of(current), O_PATH | O_DIRECTORY));
    char target[4096];
    const ssize_t length =
        ::readlinkat(parent.get(), leaf_of(current).c_str(), target, sizeof target - 1);
    if (length < 0) {
      const UniqueFd file(::openat(parent.get(), leaf_of(current).c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
      return file ? Ok{} : Ok{fail_errno("creating /" + current + " in the volume")};
    }
    const std::string next(target, static_cast<std::size_t>(length));
    current = next.front() == '/' ? relative(next) : parent_of(current) + "/" + next;
  }
  return fail(ErrorKind::refused, "/" + path + " in the volume is a loop of links");
}

Ok RootDirectory::make_link(const std::string& text, const std::string& path) const {
  TRY_ASSIGN(const UniqueFd parent, open_inside(parent_of(path), O_PATH | O_DIRECTORY));
  if (::symlinkat(text.c_str(), parent.get(), leaf_of(path).c_str()) != 0 && errno != EEXIST)
    return fail_errno("linking /" + path + " in the volume");
  return {};
}

bool RootDirectory::is_directory(const std::string& path) const {
  return open_inside(path, O_PATH | O_DIRECTORY).has_value();
}

bool RootDirectory::is_executable(const std::string& path) const {
  const auto file = open_inside(path, O_PATH);
  struct stat facts {};
  return file && ::fstat(file->get(), &facts) == 0 && S_ISREG(facts.st_mode) &&
         (facts.st_mode & 0111) != 0;
}

std::optional<std::uint16_t> elf_machine(std::string_view header) {
  constexpr std::size_t kMachineOffset = 18;
  if (header.size() < kMachineOffset + 2 || header.substr(0, SELFMAG) != ELFMAG)
    return std::nullopt;
  const auto low = static_cast<unsigned char>(header[kMachineOffset]);
  const auto high = static_cast<unsigned char>(header[kMachineOffset + 1]);
  const bool big_endian = header[EI_DATA] == ELFDATA2MSB;
  return static_cast<std::uint16_t>(big_endian ? low << 8 | high : high << 8 | low);
}

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "arm64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "riscv";
    default:
      return "machine " + std::to_string(machine);
  }
}

std::uint16_t native_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
#error "this architecture is not supported"
#endif
}

namespace {

/// A damage that mounting does not meet. From ext4: EUCLEAN, or EBADMSG where a checksum tells it.
Ok check_can_be_read(const RootDirectory& root) {
  for (const char* path : {"etc/os-release", "usr/lib/os-release", "bin/sh"}) {
    const auto opened = root.open_inside(path, O_PATH);
    if (!opened && (opened.error().code == "EUCLEAN" || opened.error().code == "EBADMSG"))
      return fail(ErrorKind::refused,
                  "its file system is damaged (at /" + std::string(path) +
                      "): take a snapshot, attach the volume where nothing mounts it, and repair "
                      "it (e2fsck -f, xfs_repair)",
                  "EUCLEAN");
  }
  return {};
}

Ok check_content(const RootDirectory& root) {
  if (!root.open_inside("etc/os-release", O_PATH) &&
      !root.open_inside("usr/lib/os-release", O_PATH))
    return fail(ErrorKind::refused,
                "it has no etc/os-release, the pool's source has to be an AMI or the snapshot "
                "of a root disk");
  if (!root.is_executable("bin/sh")) return fail(ErrorKind::refused, "it has no executable bin/sh");
  TRY_ASSIGN(const UniqueFd shell, root.open_inside("bin/sh", O_RDONLY | O_NONBLOCK));
  char header[64];
  const ssize_t got = ::read(shell.get(), header, sizeof header);
  const auto machine = elf_machine({header, static_cast<std::size_t>(got > 0 ? got : 0)});
  if (!machine) return fail(ErrorKind::refused, "its bin/sh is no ELF program");
  if (*machine != native_machine())
    return fail(ErrorKind::refused, "its programs are built for " + machine_name(*machine) +
                                        ", this instance is " + machine_name(native_machine()) +
                                        ": take an instance type of the volume's architecture");
  return {};
}

}  // namespace

Ok check_is_root(const RootDirectory& root) {
  const Ok accepted = check_content(root);
  if (!accepted) TRY(check_can_be_read(root));  // what is missing may be what cannot be read
  return accepted;
}

std::string pretty_name(std::string_view os_release) {
  if (os_release.size() > kMaxOsRelease) return {};
  constexpr std::string_view kKey = "PRETTY_NAME=";
  for (std::size_t at = 0; at < os_release.size();) {
    const std::size_t end = std::min(os_release.find('\n', at), os_release.size());
    std::string_view line = os_release.substr(at, end - at);
    at = end + 1;
    if (line.substr(0, kKey.size()) != kKey) continue;
    line.remove_prefix(kKey.size());
    if (line.size() >= 2 && (line.front() == '"' || line.front() == '\'') &&
        line.back() == line.front())
      line = line.substr(1, line.size() - 2);
    return shortened(without_controls(std::string(line)), kMostPrettyName);
  }
  return {};
}

}  // namespace warmroot::bootstrap
