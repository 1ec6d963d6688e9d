// See partition.hpp. Source of the table: botocore's data/partitions.json.
#include "manager/aws/partition.hpp"

#include <algorithm>
#include <array>

namespace warmroot::aws {
namespace {

struct Entry {
  Partition partition;
  std::string_view prefix;  ///< of its Regions' names; empty: see kCommercial
  std::string_view global;  ///< the name that global services go by
};

constexpr std::array kPartitions = std::to_array<Entry>({
    {{"aws", "amazonaws.com", "api.aws"}, "", "aws-global"},
    {{"aws-cn", "amazonaws.com.cn", "api.amazonwebservices.com.cn"}, "cn-", "aws-cn-global"},
    {{"aws-eusc", "amazonaws.eu", "api.amazonwebservices.eu"}, "eusc-de-", "aws-eusc-global"},
    {{"aws-iso", "c2s.ic.gov", "api.aws.ic.gov"}, "us-iso-", "aws-iso-global"},
    {{"aws-iso-b", "sc2s.sgov.gov", "api.aws.scloud"}, "us-isob-", "aws-iso-b-global"},
    {{"aws-iso-e", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"}, "eu-isoe-", "aws-iso-e-global"},
    {{"aws-iso-f", "csp.hci.ic.gov", "api.aws.hci.ic.gov"}, "us-isof-", "aws-iso-f-global"},
    {{"aws-us-gov", "amazonaws.com", "api.aws"}, "us-gov-", "aws-us-gov-global"},
});

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_';
}

/// What follows the prefix in the pattern of every partition: `\w+-\d+`.
bool is_place_and_number(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == 0 || dash == std::string_view::npos || dash + 1 == text.size()) return false;
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(dash), is_word) &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(dash) + 1, text.end(), is_digit);
}

}  // namespace

bool is_region_name(std::string_view region) {
  return !region.empty() && std::all_of(region.begin(), region.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-';
  });
}

const Partition& partition_of(std::string_view region) {
  for (const Entry& entry : kPartitions) {
    if (region == entry.global) return entry.partition;
    if (!entry.prefix.empty() && region.starts_with(entry.prefix) &&
        is_place_and_number(region.substr(entry.prefix.size())))
      return entry.partition;
  }
  return kPartitions.front().partition;
}

const Partition* find_partition(std::string_view id) {
  for (const Entry& entry : kPartitions)
    if (entry.partition.id == id) return &entry.partition;
  return nullptr;
}

Arn split_arn(std::string_view text) {
  constexpr std::size_t kParts = 6;  // arn:partition:service:region:account:resource
  std::array<std::string_view, kParts> parts;
  for (std::size_t i = 0; i < kParts; ++i) {
    const std::size_t end = i + 1 == kParts ? std::string_view::npos : text.find(':');
    if (i + 1 < kParts && end == std::string_view::npos) return {};
    parts[i] = text.substr(0, end);
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  if (parts[0] != "arn") return {};
  return {parts[1], parts[2], parts[4], parts[5]};
}

bool is_aws_host(std::string_view host) {
  for (const Entry& entry : kPartitions)
    for (const std::string_view suffix :
         {entry.partition.dns_suffix, entry.partition.dual_stack_suffix})
      if (host.size() > suffix.size() && host.ends_with(suffix) &&
          host[host.size() - suffix.size() - 1] == '.')
        return true;
  return false;
}

}  // namespace warmroot::aws
