// The instance metadata service (IMDSv2) of the simulated region: what one instance sees at
// 169.254.169.254, and the loopback listeners behind it. Source: EC2 user guide; the paths are
// those that bootstraps and cloud-init read.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/sim/instance_identity.hpp"
#include "tests/sim/region.hpp"

namespace warmroot::sim {

struct ImdsReply {
  int status = 200;
  std::string content_type = "text/plain";
  std::string body;
  std::map<std::string, std::string> headers;
};

/// All leaves below /latest/, e.g. "meta-data/instance-id". Tags are live, the block device mapping
/// is that of the launch, the spot paths appear with the notice. The identity's signature is empty:
/// it is made when somebody reads it.
std::map<std::string, std::string> imds_leaves(const Region& region, const InstanceRecord& guest);

/// One instance's service, without sockets. Not thread-safe.
class Imds {
 public:
  /// All outlive it.
  Imds(const Region& region, IdentitySigner& signer, std::string instance_id)
      : region_(region), signer_(signer), instance_id_(std::move(instance_id)) {}

  /// `path` is decoded and starts with a slash; header names are in lower case.
  ImdsReply answer(const std::string& method, const std::string& path,
                   const std::map<std::string, std::string>& headers);

 private:
  ImdsReply give_token(const std::map<std::string, std::string>& headers);
  ImdsReply read(std::string path) const;

  const Region& region_;
  IdentitySigner& signer_;
  std::string instance_id_;
  std::map<std::string, Instant> tokens_;  ///< token to its end
  std::uint64_t last_token_ = 0;
};

}  // namespace warmroot::sim
