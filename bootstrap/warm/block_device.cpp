#include "bootstrap/warm/block_device.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "bootstrap/base/free_deleter.hpp"

namespace warmroot::warm {
namespace {

constexpr std::uint64_t kAlignment = 4096;

std::string read_text(int fd) {
  char text[128];
  const ssize_t count = ::pread(fd, text, sizeof text - 1, 0);
  return count > 0 ? std::string(text, static_cast<std::size_t>(count)) : std::string();
}

std::string read_text(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file ? read_text(file.get()) : std::string();
}

/// What the device takes at once. Behind a scheduler nr_requests counts the scheduler's own tags,
/// of which the kernel makes twice as many (blk_mq_init_sched): Xen's ring of 32 shows 64.
std::optional<unsigned> tags_of(const std::string& sysfs) {
  unsigned tags = 0;
  const std::string text = read_text(sysfs + "/queue/nr_requests");
  if (std::sscanf(text.c_str(), "%u", &tags) != 1 || tags == 0) return std::nullopt;
  const std::string schedulers = read_text(sysfs + "/queue/scheduler");
  const bool is_scheduled =
      schedulers.find('[') != std::string::npos && schedulers.find("[none]") == std::string::npos;
  return is_scheduled ? std::max(1U, tags / 2) : tags;
}

}  // namespace

Result<BlockDevice> BlockDevice::open(const std::string& path) {
  BlockDevice device;
  device.fd_.reset(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!device.fd_) return fail_errno("opening " + path + " for direct reads");
  struct stat status {};
  if (::fstat(device.fd(), &status) != 0) return fail_errno("looking at " + path);
  if (S_ISREG(status.st_mode)) {
    device.size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  } else if (S_ISBLK(status.st_mode)) {
    if (::ioctl(device.fd(), BLKGETSIZE64, &device.size_bytes_) != 0)
      return fail_errno("the size of " + path);
    const std::string sysfs = "/sys/dev/block/" + std::to_string(major(status.st_rdev)) + ":" +
                              std::to_string(minor(status.st_rdev));
    device.tags_ = tags_of(sysfs);
    device.inflight_.reset(::open((sysfs + "/inflight").c_str(), O_RDONLY | O_CLOEXEC));
  } else {
    return fail(ErrorKind::misconfigured, path + " is neither a disk nor a file");
  }
  if (device.size_bytes_ == 0) return fail(ErrorKind::misconfigured, path + " is empty");
  return device;
}

std::uint64_t BlockDevice::size_now() const {
  const off_t end = ::lseek(fd(), 0, SEEK_END);
  return end < 0 ? size_bytes_ : static_cast<std::uint64_t>(end);
}

std::optional<unsigned> BlockDevice::in_flight() const {
  if (!inflight_) return std::nullopt;
  unsigned reads = 0;
  unsigned writes = 0;
  if (std::sscanf(read_text(inflight_.get()).c_str(), "%u %u", &reads, &writes) != 2)
    return std::nullopt;
  return reads + writes;
}

Result<std::string> BlockDevice::read(ByteRange range) const {
  if (range.offset > size_bytes_ || range.length > size_bytes_ - range.offset)
    return fail(ErrorKind::broken, "a read beyond the device");
  const std::uint64_t start = range.offset / kAlignment * kAlignment;
  const std::uint64_t end =
      (range.offset + range.length + kAlignment - 1) / kAlignment * kAlignment;
  const std::unique_ptr<char, FreeDeleter> buffer(
      static_cast<char*>(std::aligned_alloc(kAlignment, end - start)));
  if (!buffer) return fail(ErrorKind::broken, "no memory for a read");
  std::uint64_t got = 0;
  while (start + got < range.offset + range.length) {
    const ssize_t count =
        ::pread(fd(), buffer.get() + got, end - start - got, static_cast<off_t>(start + got));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("reading the device");
    if (count == 0) return fail(ErrorKind::broken, "the device ended early");
    got += static_cast<std::uint64_t>(count);
  }
  return std::string(buffer.get() + (range.offset - start), range.length);
}

}  // namespace warmroot::warm
