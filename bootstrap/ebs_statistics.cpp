#include "bootstrap/ebs_statistics.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::uint64_t kMagic = 0x3C23B510;
constexpr std::size_t kFirstCounter = 8;

std::uint64_t little_endian(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i - 1]);
  return value;
}

}  // namespace

std::optional<EbsStatistics> parse_ebs_statistics(std::string_view page) {
  if (page.size() < kEbsStatisticsBytes || little_endian(page, 0, 4) != kMagic) return std::nullopt;
  EbsStatistics found;
  std::size_t at = kFirstCounter;
  for (std::uint64_t EbsStatistics::*counter :
       {&EbsStatistics::read_operations, &EbsStatistics::write_operations,
        &EbsStatistics::read_bytes, &EbsStatistics::write_bytes, &EbsStatistics::read_us,
        &EbsStatistics::write_us, &EbsStatistics::volume_iops_exceeded_us,
        &EbsStatistics::volume_throughput_exceeded_us, &EbsStatistics::instance_iops_exceeded_us,
        &EbsStatistics::instance_throughput_exceeded_us, &EbsStatistics::queue_length}) {
    found.*counter = little_endian(page, at, 8);
    at += 8;
  }
  return found;
}

}  // namespace warmroot::bootstrap
