// The instance metadata service, version 2 only. `up` asks it who this machine is and what was
// attached at launch; the notice watcher asks it for the spot notice. Wire format: reference ec2.md
// section 6.1.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/launch_facts.hpp"

namespace warmroot::bootstrap {

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

  /// Everything `up` needs, in one go. Errors: any of find's and of set_identity's.
  Result<LaunchFacts> launch_facts();

  /// The machine's type, as instance_type_of has it; empty where the service does not tell it.
  std::string instance_type();

  /// Who this machine is, signed by EC2, as the manager wants it at hello; nullopt where the
  /// service has none, or one longer than kMaxSignatureBytes. Errors: find's.
  Result<std::optional<std::string>> identity_signature();

 private:
  Ok renew_token();
  std::string endpoint_;
  std::string token_;
  HttpClient http_;
};

/// Asks for the launch facts until there is an answer, or until `stops_within`, which waits for so
/// long, says that nobody wants one any more: each second at first, and after some minutes, when
/// `on_silence` hears once why there is none, less and less often. Errors: ask's last, where it was
/// stopped.
Result<LaunchFacts> ask_until_answered(
    const std::function<Result<LaunchFacts>()>& ask,
    const std::function<bool(std::chrono::milliseconds)>& stops_within,
    const std::function<void(const Error&)>& on_silence);

}  // namespace warmroot::bootstrap
