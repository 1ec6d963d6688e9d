// A loop device in direct I/O mode with an EBS volume's queue limits, and a mount on it. Both undo
// themselves; a loop that its process left behind goes with its last opener.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::bench {

class LoopDevice {
 public:
  /// Opens `file` once, for as long as the loop lives. `size_bytes` 0: to its end. Errors: no free
  /// loop device, or the kernel refuses direct I/O.
  static Result<LoopDevice> attach(const std::filesystem::path& file, std::uint64_t offset_bytes,
                                   std::uint64_t size_bytes);
  LoopDevice(LoopDevice&&) = default;
  LoopDevice& operator=(LoopDevice&&) = default;
  /// Waits (2 s at most) until the device has let go of the file.
  ~LoopDevice();

  const std::string& path() const { return path_; }

  /// Bytes of the device itself, not of files on it, that are in the page cache now: of whoever
  /// read it without O_DIRECT, since it was attached. Errors: mincore(2)'s.
  Result<std::uint64_t> cached_bytes() const;

 private:
  LoopDevice(UniqueFd device, std::string path)
      : device_(std::move(device)), path_(std::move(path)) {}

  UniqueFd device_;
  std::string path_;
};

/// A mounted file system with what was mounted below it.
class Mount {
 public:
  /// Errors: mount(2)'s.
  static Result<Mount> make(const std::string& source, const std::filesystem::path& point,
                            const std::string& type, const std::string& options);
  /// What somebody else has mounted there.
  static Mount taken_over(std::filesystem::path point) { return Mount(std::move(point)); }
  /// The same tree in another place.
  static Result<Mount> bind(const std::filesystem::path& tree, const std::filesystem::path& point);
  Mount(Mount&& other) noexcept : point_(std::exchange(other.point_, {})) {}
  Mount& operator=(Mount&&) = delete;
  /// Waits (10 s at most) for the last user; then detaches.
  ~Mount();

 private:
  explicit Mount(std::filesystem::path point) : point_(std::move(point)) {}
  std::filesystem::path point_;
};

}  // namespace warmroot::bench
