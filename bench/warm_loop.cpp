#include "bench/warm_loop.hpp"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "bootstrap/base/units.hpp"

namespace warmroot::bench {
namespace {

using std::chrono::milliseconds;

constexpr int kLoopMajor = 7;
/// Another process may take the device that the kernel named.
constexpr int kTries = 20;

/// What EBS's NVMe devices have, but for their 1,023 tags: loops have 128. They keep limits of
/// their last use, so each is set on each attach.
constexpr std::pair<const char*, const char*> kQueueLimits[] = {{"scheduler", "none"},
                                                                {"nr_requests", "128"},
                                                                {"max_sectors_kb", "256"},
                                                                {"read_ahead_kb", "128"},
                                                                {"rotational", "0"}};

std::string sys_of(const std::string& device) {
  return "/sys/block/" + std::filesystem::path(device).filename().string();
}

Ok set_queue_limits(const std::string& device) {
  for (const auto& [name, value] : kQueueLimits) {
    std::ofstream file(sys_of(device) + "/queue/" + name);
    file << value << std::flush;
    // This kernel fixes a loop's tags; asking for what it has is refused too.
    if (!file && std::string_view(name) != "nr_requests")
      return fail(ErrorKind::refused, device + ": " + name + " cannot be set to " + value);
  }
  return {};
}

Result<std::string> free_loop() {
  const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) return fail_errno("opening /dev/loop-control");
  const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
  if (number < 0) return fail_errno("looking for a free loop device");
  std::string path = "/dev/loop" + std::to_string(number);
  if (::access(path.c_str(), F_OK) != 0 &&
      ::mknod(path.c_str(), S_IFBLK | 0600, makedev(kLoopMajor, static_cast<unsigned>(number))) !=
          0)
    return fail_errno("making " + path);
  return path;
}

}  // namespace

Result<LoopDevice> LoopDevice::attach(const std::filesystem::path& file, std::uint64_t offset_bytes,
                                      std::uint64_t size_bytes) {
  const UniqueFd backing(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!backing) return fail_errno("opening " + file.string());
  loop_config config{};
  config.fd = static_cast<__u32>(backing.get());
  config.info.lo_offset = offset_bytes;
  config.info.lo_sizelimit = size_bytes;
  config.info.lo_flags = LO_FLAGS_DIRECT_IO | LO_FLAGS_AUTOCLEAR;
  for (int i = 0; i < kTries; ++i) {
    TRY_ASSIGN(std::string path, free_loop());
    UniqueFd device(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!device) return fail_errno("opening " + path);
    if (::ioctl(device.get(), LOOP_CONFIGURE, &config) != 0) {
      if (errno == EBUSY) continue;
      return fail_errno("attaching " + file.string() + " to " + path);
    }
    LoopDevice loop(std::move(device), std::move(path));
    int direct = 0;
    std::ifstream(sys_of(loop.path_) + "/loop/dio") >> direct;
    if (direct != 1)
      return fail(ErrorKind::refused,
                  loop.path_ + " does no direct I/O, and would read one block after the other");
    TRY(set_queue_limits(loop.path_));
    return loop;
  }
  return fail(ErrorKind::retry_later, "every free loop device was taken by somebody else");
}

Result<std::uint64_t> LoopDevice::cached_bytes() const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const off_t size = ::lseek(device_.get(), 0, SEEK_END);
  if (size < 0) return fail_errno("asking for the size of " + path_);
  std::uint64_t pages = 0;
  std::vector<unsigned char> resident(kGiB / page);
  for (std::uint64_t at = 0; at < static_cast<std::uint64_t>(size); at += kGiB) {
    const std::uint64_t length =
        std::min<std::uint64_t>(kGiB, static_cast<std::uint64_t>(size) - at);
    void* memory =
        ::mmap(nullptr, length, PROT_READ, MAP_SHARED, device_.get(), static_cast<off_t>(at));
    if (memory == MAP_FAILED) return fail_errno("mapping " + path_);
    const int told = ::mincore(memory, length, resident.data());
    const int error = errno;
    ::munmap(memory, length);
    if (told != 0) return fail(errno_error("mincore of " + path_, error));
    pages += static_cast<std::uint64_t>(
        std::count_if(resident.begin(),
                      resident.begin() + static_cast<std::ptrdiff_t>((length + page - 1) / page),
                      [](unsigned char each) { return (each & 1U) != 0; }));
  }
  return pages * page;
}

LoopDevice::~LoopDevice() {
  if (!device_) return;
  device_.reset();
  for (int i = 0; i < 200 && ::access((sys_of(path_) + "/loop").c_str(), F_OK) == 0; ++i)
    std::this_thread::sleep_for(milliseconds(10));
}

Result<Mount> Mount::make(const std::string& source, const std::filesystem::path& point,
                          const std::string& type, const std::string& options) {
  if (::mount(source.c_str(), point.c_str(), type.c_str(), 0, options.c_str()) != 0)
    return fail_errno("mounting " + source + " (" + type + ")");
  return Mount(point);
}

Result<Mount> Mount::bind(const std::filesystem::path& tree, const std::filesystem::path& point) {
  if (::mount(tree.c_str(), point.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return fail_errno("mounting " + tree.string() + " in " + point.string());
  return Mount(point);
}

Mount::~Mount() {
  if (point_.empty()) return;
  for (int i = 0; i < 1000; ++i) {
    if (::umount2(point_.c_str(), 0) == 0 || errno != EBUSY) return;
    std::this_thread::sleep_for(milliseconds(10));
  }
  ::umount2(point_.c_str(), MNT_DETACH);
}

}  // namespace warmroot::bench
