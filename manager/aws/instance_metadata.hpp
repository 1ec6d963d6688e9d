// The metadata service of the instance that the manager runs on (IMDSv2 only): its Region and its
// role's credentials. The bootstrap has an entry of its own (bootstrap/imds). Source: ec2.md 6.1.
#pragma once

#include <optional>
#include <string>

#include "manager/aws/profile.hpp"

namespace warmroot::aws {

class InstanceMetadata {
 public:
  /// Address and patience as the SDKs' variables and settings say. nullopt:
  /// AWS_EC2_METADATA_DISABLED=true, or no HTTP here. Errors: misconfigured.
  static Result<std::optional<InstanceMetadata>> of_settings(const ChosenProfile& profile,
                                                             const Surroundings& from);

  /// One path's text. Errors: gone for 404, refused where the service is turned off, retry_later
  /// when it does not answer or has trouble, broken for what is no answer of its.
  Result<std::string> get(const std::string& path) const;

  const std::string& address() const { return address_; }

 private:
  InstanceMetadata(const Surroundings& from, std::string address)
      : from_(&from), address_(std::move(address)) {}
  Result<HttpReply> ask(const HttpRequest& request) const;
  HttpRequest request_for(const std::string& path) const;

  const Surroundings* from_;
  std::string address_;  ///< "http://169.254.169.254"
  Milliseconds timeout_{1000};
  int attempts_ = 1;
};

}  // namespace warmroot::aws
