#include "bootstrap/volume_blocks.hpp"

#include "bootstrap/base/log.hpp"

namespace warmroot::bootstrap {
namespace {

void tell(const Error& error) {
  log_event(LogLevel::warning, "block list", {{"what", error.message()}});
}

}  // namespace

void VolumeBlocks::made_from(const std::string& volume_id, const std::string& snapshot_id) {
  const std::lock_guard lock(mutex_);
  volume_id_ = volume_id;
  snapshot_id_ = snapshot_id;
}

void VolumeBlocks::take(std::string_view bytes) {
  auto list = warm::decode_block_list(bytes);
  if (!list) return tell(list.error());
  const std::lock_guard lock(mutex_);
  list_ = std::move(*list);
}

bool VolumeBlocks::has_list() const {
  const std::lock_guard lock(mutex_);
  return list_.has_value();
}

std::optional<warm::BlockSet> VolumeBlocks::on_device(const std::string& volume_id,
                                                      std::uint64_t device_bytes,
                                                      std::uint64_t root_offset) {
  const std::lock_guard lock(mutex_);
  if (!list_ || snapshot_id_.empty() || volume_id_ != volume_id) return std::nullopt;
  auto blocks = warm::blocks_on_device(*list_, snapshot_id_, device_bytes, root_offset);
  if (blocks) return std::move(*blocks);
  tell(blocks.error());
  list_.reset();
  return std::nullopt;
}

}  // namespace warmroot::bootstrap
