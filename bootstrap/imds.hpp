// The instance metadata service, version 2 only. `up` asks it who this machine is and what was
// attached at launch; the notice watcher asks it for the spot notice. Wire format: reference ec2.md
// section 6.1.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

/// What does not change after launch.
struct LaunchFacts {
  std::string instance_id;
  std::string zone;
  std::vector<std::string> device_names;  ///< of the launch-time mapping, without "/dev/"
  std::string public_key;  ///< the launch key, one authorized_keys line; may be empty
};

/// EC2's has some 1.6 KB; the manager takes no more.
inline constexpr std::size_t kMaxSignatureBytes = 16'384;

/// One connection and one token; not for several threads at once.
class Imds {
 public:
  /// `endpoint` like "http://169.254.169.254", or nullopt for $AWS_EC2_METADATA_SERVICE_ENDPOINT or
  /// that address.
  explicit Imds(std::optional<std::string> endpoint = std::nullopt);

  /// Body of a path below /latest/, nullopt for 404. Renews the token once on 401. Errors: as
  /// HttpClient's; refused for any other status.
  Result<std::optional<std::string>> find(const std::string& path);

  /// Everything `up` needs, in one go. Errors: any of find's, gone when there is no instance-id.
  Result<LaunchFacts> launch_facts();

  /// Who this machine is, signed by EC2, as the manager wants it at hello; nullopt where the
  /// service has none, or one longer than kMaxSignatureBytes. Errors: find's.
  Result<std::optional<std::string>> identity_signature();

 private:
  Ok renew_token();
  std::string endpoint_;
  std::string token_;
  HttpClient http_;
};

}  // namespace warmroot::bootstrap
