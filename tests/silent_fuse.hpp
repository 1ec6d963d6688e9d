// A FUSE file system whose server takes requests and does not answer them: whoever asks waits in
// the kernel, and no signal ends that. Its end, which has to come before anybody waits for them,
// lets them go.
#pragma once

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/base/unique_fd.hpp"

namespace warmroot {

class SilentFuse {
 public:
  enum class Answers { none, all_but_the_last };  ///< the last: that it is unmounted, of fuseblk

  explicit SilentFuse(Answers answers = Answers::none)
      : answers_(answers), device_(::open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC)) {}
  ~SilentFuse() { end(); }
  SilentFuse(const SilentFuse&) = delete;
  SilentFuse& operator=(const SilentFuse&) = delete;

  /// By this process, or by a child of it, which then has to let go of its copy of the device.
  bool mount_at(const std::string& point, const char* type = "fuse.silent",
                const std::string& source = "silent") const {
    const std::string options =
        "fd=" + std::to_string(device_.get()) + ",rootmode=40000,user_id=0,group_id=0";
    return ::mount(source.c_str(), point.c_str(), type, 0, options.c_str()) == 0;
  }
  void let_go() { device_.reset(); }

  /// Begins to take requests; it may be mounted a moment later.
  void begin() {
    server_ = std::thread([this] { serve(); });
  }
  /// Whether it is mounted, and so many wait for an answer, within some seconds.
  bool has_waiting(unsigned least) const {
    for (int i = 0; i < kMostLooks && !(begun_ && waiting_ >= least); ++i)
      ::poll(nullptr, 0, kPauseMs);
    return begun_ && waiting_ >= least;
  }
  unsigned waiting() const { return waiting_; }

  /// The last descriptor of a device that is closed ends the connection, and all requests fail.
  void end() {
    over_ = true;
    if (server_.joinable()) server_.join();
    device_.reset();
  }

 private:
  static constexpr int kPauseMs = 10;
  static constexpr int kMostLooks = 3000;
  static constexpr std::uint32_t kWriteBytes = 4096;

  void serve() {
    std::vector<char> request(std::size_t{64} * 1024);
    while (!over_) {
      pollfd item{device_.get(), POLLIN, 0};
      ::poll(&item, 1, kPauseMs);
      const ssize_t got = ::read(device_.get(), request.data(), request.size());
      if (got < 0 && (errno == ENODEV || errno == ECONNABORTED)) return;  // unmounted
      if (got >= static_cast<ssize_t>(sizeof(fuse_in_header)))
        take(request.data());
      else
        ::poll(nullptr, 0, kPauseMs);
    }
  }

  void take(const char* request) {
    fuse_in_header header{};
    std::memcpy(&header, request, sizeof header);
    if (header.opcode == FUSE_INIT) {
      struct {
        fuse_out_header header;
        fuse_init_out init;
      } answer{};
      answer.header.len = sizeof answer;
      answer.header.unique = header.unique;
      answer.init.major = FUSE_KERNEL_VERSION;
      answer.init.minor = FUSE_KERNEL_MINOR_VERSION;
      answer.init.max_write = kWriteBytes;
      begun_ = ::write(device_.get(), &answer, sizeof answer) == sizeof answer;
    } else if (answers_ == Answers::all_but_the_last && header.opcode != FUSE_DESTROY) {
      fuse_out_header answer{};
      answer.len = sizeof answer;
      answer.error = -ENOSYS;
      answer.unique = header.unique;
      [[maybe_unused]] const auto put = ::write(device_.get(), &answer, sizeof answer);
    } else {
      ++waiting_;
    }
  }

  const Answers answers_;
  UniqueFd device_;
  std::thread server_;
  std::atomic<bool> over_ = false;
  std::atomic<bool> begun_ = false;
  std::atomic<unsigned> waiting_ = 0;
};

}  // namespace warmroot
