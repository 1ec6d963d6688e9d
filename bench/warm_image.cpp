#include "bench/warm_image.hpp"

#include <fstream>
#include <system_error>

#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "tests/sim/ebs_disk.hpp"

namespace warmroot::bench {
namespace {

/// Where bench/warm_images.sh puts the partition: behind 1,088 KiB, and 1 MiB before the end.
constexpr std::uint64_t kPartitionOffset = 1088 * kKiB;
constexpr std::uint64_t kBehindPartition = kMiB;

}  // namespace

Result<Image> image_called(const std::filesystem::path& directory, const std::string& name) {
  Image image{.file = std::filesystem::absolute(directory) / (name + ".img"),
              .file_system = name == "xfs" ? "xfs" : "ext4",
              .partition_offset = kPartitionOffset};
  std::error_code error;
  image.size_bytes = std::filesystem::file_size(image.file, error);
  if (error) return fail(errno_error(image.file.string(), error.value()));
  if (image.size_bytes <= kPartitionOffset + kBehindPartition)
    return fail(ErrorKind::misconfigured, image.file.string() + " is no root disk");
  image.partition_bytes = image.size_bytes - kPartitionOffset - kBehindPartition;
  return image;
}

std::vector<std::uint64_t> touch_offsets(const Image& image) {
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t at = 0; at < image.size_bytes; at += warm::kGridBytes) offsets.push_back(at);
  return offsets;
}

Result<VolumeFacts> facts_of(const Image& image, const sim::VolumeProfile& profile) {
  TRY_ASSIGN(auto data, sim::data_of_image(image.file));
  std::filesystem::path free_file = image.file;
  std::ifstream in(free_file.replace_extension(".free"));
  if (!in) return fail_errno("opening " + free_file.string());
  // Nobody needs what lies beside the partition.
  const std::uint64_t behind = image.partition_offset + image.partition_bytes;
  std::vector<sim::ByteRange> free = {{0, image.partition_offset},
                                      {behind, image.size_bytes - behind}};
  for (sim::ByteRange range; in >> range.offset >> range.length;) free.push_back(range);
  return volume_facts(image.size_bytes, profile.hydration_unit_kib * kKiB, std::move(data), free);
}

}  // namespace warmroot::bench
