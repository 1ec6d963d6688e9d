// The manager's list of the blocks that the volume's snapshot holds: taken without trust as it
// comes in, and given to the warmer once it is certain that it is this volume's. Without one the
// warmer asks the file system. From any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/warm/block_list.hpp"

namespace warmroot::bootstrap {

class VolumeBlocks {
 public:
  /// The manager says what the volume was made from.
  void made_from(const std::string& volume_id, const std::string& snapshot_id);
  /// A list from the manager. One that is damaged is a line in the log.
  void take(std::string_view bytes);
  /// A list is there.
  bool has_list() const;
  /// The blocks of the volume's device that its snapshot holds; nullopt while list or snapshot are
  /// not there. A list that is not of this volume is a line in the log, and forgotten.
  std::optional<warm::BlockSet> on_device(const std::string& volume_id, std::uint64_t device_bytes,
                                          std::uint64_t root_offset);

 private:
  mutable std::mutex mutex_;
  std::string volume_id_, snapshot_id_;
  std::optional<warm::BlockList> list_;
};

}  // namespace warmroot::bootstrap
