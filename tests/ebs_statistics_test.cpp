// EBS' own log page, and how people and Prometheus get to see it.
#include "bootstrap/ebs_statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "bootstrap/documents.hpp"
#include "bootstrap/metrics.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The magic, four bytes reserved, then eleven counters of eight bytes: 1, 2, 3 ... times 1,000.
std::string page() {
  std::string bytes("\x10\xB5\x23\x3C\0\0\0\0", 8);
  for (std::uint64_t counter = 1; counter <= 11; ++counter)
    for (int byte = 0; byte < 8; ++byte)
      bytes += static_cast<char>(counter * 1'000 >> (8 * byte) & 0xFF);
  bytes.resize(kEbsStatisticsBytes);
  return bytes;
}

TEST(EbsStatistics, are_read_in_the_order_of_the_page) {
  const EbsStatistics expected{1'000, 2'000, 3'000, 4'000,  5'000, 6'000,
                               7'000, 8'000, 9'000, 10'000, 11'000};
  EXPECT_EQ(parse_ebs_statistics(page()), expected);
}

TEST(EbsStatistics, of_another_vendors_page_or_half_a_page_are_none) {
  std::string other = page();
  other[0] = 0x11;
  EXPECT_EQ(parse_ebs_statistics(other), std::nullopt);
  EXPECT_EQ(parse_ebs_statistics(page().substr(0, kEbsStatisticsBytes - 1)), std::nullopt);
  EXPECT_EQ(parse_ebs_statistics(""), std::nullopt);
}

TEST(EbsStatistics, reach_the_status_document_its_text_and_the_metrics) {
  Status status;
  EXPECT_THAT(status_document(status), HasSubstr("\"ebs\":null"));
  EXPECT_THAT(*status_text(status_document(status)), Not(HasSubstr("EBS")));
  EXPECT_THAT(metrics_text(status), Not(HasSubstr("warmroot_ebs")));
  status.ebs = EbsStatistics{};
  status.ebs->volume_iops_exceeded_us = 2'500'000;
  const std::string document = status_document(status);
  EXPECT_THAT(document, HasSubstr("\"volume_iops_exceeded_us\":2500000"));
  EXPECT_THAT(*status_text(document), HasSubstr("2.5 s at the volume's IOPS"));
  EXPECT_THAT(metrics_text(status), HasSubstr("limit=\"volume_iops\"} 2.5\n"));
}

}  // namespace
}  // namespace warmroot::bootstrap
