// What EBS itself says of a volume: the log page that it adds to its NVMe controllers. It tells a
// slow first touch from a volume or an instance that is held at its limits. Pure; read by
// device_io. Source: reference ec2.md 9 (amazon-ec2-utils' ebsnvme, the EBS CSI driver's metrics).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace warmroot::bootstrap {

inline constexpr unsigned kEbsStatisticsPage = 0xD0;
inline constexpr std::size_t kEbsStatisticsBytes = 4096;

/// Since the volume was attached, by EBS' count.
struct EbsStatistics {
  std::uint64_t read_operations = 0;
  std::uint64_t write_operations = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t read_us = 0;   ///< spent in all of them together
  std::uint64_t write_us = 0;  ///< spent in all of them together
  /// For so long more was asked for than the volume, or the instance, may have.
  std::uint64_t volume_iops_exceeded_us = 0;
  std::uint64_t volume_throughput_exceeded_us = 0;
  std::uint64_t instance_iops_exceeded_us = 0;
  std::uint64_t instance_throughput_exceeded_us = 0;
  std::uint64_t queue_length = 0;  ///< just now

  bool operator==(const EbsStatistics&) const = default;
};

/// Nullopt when the page is another vendor's, or too short.
std::optional<EbsStatistics> parse_ebs_statistics(std::string_view page);

}  // namespace warmroot::bootstrap
