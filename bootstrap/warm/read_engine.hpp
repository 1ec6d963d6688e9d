// The seam between the warmer and the kernel: keep reads in flight, say when each came back and how
// long it took. The data is thrown away. Two implementations: io_uring (uring_engine.cpp, the only
// file that includes liburing) and a pool of threads with pread for kernels and sandboxes that
// refuse it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::warm {

/// Direct I/O wants offset, length and address aligned to the logical block; 4 KiB serves all
/// disks.
inline constexpr std::uint32_t kTouchBytes = 4096;
/// Largest single read: EBS and most disks would split more than 256 KiB anyway, and half of that
/// keeps one read from holding two commands.
inline constexpr std::uint32_t kPieceBytes = 128 * 1024;

struct ReadRequest {
  std::uint64_t tag = 0;  ///< handed back with the result
  std::uint64_t offset = 0;
  std::uint32_t length = kTouchBytes;  ///< a multiple of 4096, at most kPieceBytes
};

struct ReadResult {
  std::uint64_t tag = 0;
  int error = 0;                         ///< an errno; a short read is EIO
  std::chrono::microseconds latency{0};  ///< from submission until it was seen to have ended
};

/// Used by one thread. The destructor does not wait for the device: reads in flight then end into
/// memory that stays valid.
class ReadEngine {
 public:
  virtual ~ReadEngine() = default;

  /// "io_uring" or "pread".
  virtual std::string_view name() const = 0;
  /// How many reads may be in flight.
  virtual unsigned capacity() const = 0;
  virtual unsigned in_flight() const = 0;

  /// Starts all of them, at the latest with the next wait() or flush(): to go to the kernel for
  /// that alone costs as much as a read. Requires room for them within capacity().
  /// Errors: broken when the kernel takes no requests any more.
  virtual Ok submit(std::span<const ReadRequest> requests) = 0;
  virtual Ok flush() { return {}; }

  /// Appends what has ended, after waiting for at least one or for `timeout`. It may wait for up to
  /// `batch` of them, but for no longer than `batch_time` once there is one: to be woken for each
  /// costs more than the read itself.
  virtual Ok wait(std::chrono::milliseconds timeout, std::vector<ReadResult>& results,
                  unsigned batch, std::chrono::milliseconds batch_time) = 0;
  Ok wait(std::chrono::milliseconds timeout, std::vector<ReadResult>& results, unsigned batch) {
    return wait(timeout, results, batch, kBatchTime);
  }
  Ok wait(std::chrono::milliseconds timeout, std::vector<ReadResult>& results) {
    return wait(timeout, results, 1);
  }

  /// A tenth of what a first touch takes.
  static constexpr std::chrono::milliseconds kBatchTime{4};
};

enum class EngineChoice { automatic, io_uring, pread };

/// Probes by trying: with `automatic`, threads where a ring is refused (io_uring_disabled, seccomp,
/// old kernels). Reads from `fd`, which has to stay open as long as the engine lives.
Result<std::unique_ptr<ReadEngine>> make_read_engine(int fd, unsigned capacity,
                                                     EngineChoice choice = EngineChoice::automatic);

/// The two, for make_read_engine. Errors of the ring: refused or broken, with the errno.
Result<std::unique_ptr<ReadEngine>> make_uring_engine(int fd, unsigned capacity);
std::unique_ptr<ReadEngine> make_pread_engine(int fd, unsigned capacity);

}  // namespace warmroot::warm
