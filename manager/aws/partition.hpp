// AWS's partitions: which one a Region belongs to, its DNS suffixes and its ARNs. Pure;
// endpoint.cpp and the role providers ask it.
#pragma once

#include <string_view>

namespace warmroot::aws {

/// One of the eight partitions, which share no accounts, no credentials and no ARNs.
struct Partition {
  std::string_view id;                 ///< the second part of its ARNs: "aws", "aws-cn", ...
  std::string_view dns_suffix;         ///< "amazonaws.com"
  std::string_view dual_stack_suffix;  ///< "api.aws"
};

/// True for what can be a Region's name: lower-case letters, digits and dashes.
bool is_region_name(std::string_view region);

/// The Region's partition: by name for those that AWS lists, by the form of the name for newer
/// ones, "aws" for what has no known form.
const Partition& partition_of(std::string_view region);

/// nullptr when there is no such partition.
const Partition* find_partition(std::string_view id);

/// The partition, account and resource of "arn:aws:iam::111122223333:role/x"; empty parts where the
/// text is no ARN.
struct Arn {
  std::string_view partition;
  std::string_view service;
  std::string_view account;
  std::string_view resource;
};
Arn split_arn(std::string_view text);

/// True when the host's name lies under one of AWS's own suffixes.
bool is_aws_host(std::string_view host);

}  // namespace warmroot::aws
