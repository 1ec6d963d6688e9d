// A root disk of bench/warm_images.sh and what a modelled volume of it holds. Called by the benches
// of the warmer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/warm_metrics.hpp"
#include "bootstrap/base/result.hpp"

namespace warmroot::bench {

/// A root disk and what is in it.
struct Image {
  std::filesystem::path file;
  std::string file_system;
  std::uint64_t partition_offset = 0;
  std::uint64_t partition_bytes = 0;
  std::uint64_t size_bytes = 0;
};

/// The one called `name` ("ext4", "xfs", ...) in `directory`. Errors: it is not there, or no root
/// disk.
Result<Image> image_called(const std::filesystem::path& directory, const std::string& name);

/// One in each block of the warmer's grid: what `touch` reads.
std::vector<std::uint64_t> touch_offsets(const Image& image);

/// What it holds and needs, in the profile's blocks. Errors: the file's, or of the list of what its
/// file system calls free, which lies beside it.
Result<VolumeFacts> facts_of(const Image& image, const sim::VolumeProfile& profile);

}  // namespace warmroot::bench
