// The disk under the root as the warmer sees it: opened read-only for direct reads, its size, its
// queue. Called by the warmer alone. Regular files are accepted too (tests, images); they have no
// queue.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

class BlockDevice {
 public:
  /// Opens with O_DIRECT and never O_EXCL: the mount owns the device.
  /// Errors: as open(2)'s; misconfigured when it is empty or neither disk nor file.
  static Result<BlockDevice> open(const std::string& path);

  int fd() const { return fd_.get(); }
  /// When it was opened.
  std::uint64_t size_bytes() const { return size_bytes_; }
  /// Now; as when it was opened where the kernel does not say.
  std::uint64_t size_now() const;

  /// How much the device takes at once: its own tags, whatever a scheduler has; nullopt for files.
  std::optional<unsigned> tags() const { return tags_; }

  /// I/Os in flight on the device, everybody's; nullopt where the kernel does not say.
  std::optional<unsigned> in_flight() const;

  /// Direct read of a few bytes whose content matters (a superblock); waits as long as it takes.
  /// Errors: the device's, or broken when the range leaves the device.
  Result<std::string> read(ByteRange range) const;

 private:
  UniqueFd fd_;
  UniqueFd inflight_;
  std::uint64_t size_bytes_ = 0;
  std::optional<unsigned> tags_;
};

}  // namespace warmroot::warm
