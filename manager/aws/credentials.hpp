// Who we are: keys from wherever the AWS SDKs find them, in their order. The places are the entries
// credentials_*.cpp behind credentials_provider.hpp; this is what the rest of the manager calls.
// credential_cache keeps what was found and renews it.
#pragma once

#include <optional>
#include <string>

#include "manager/aws/aws_settings.hpp"
#include "manager/aws/sigv4.hpp"

namespace warmroot::aws {

struct FoundCredentials {
  Credentials credentials;
  std::string source;  ///< where they were found, for people: "the environment", "profile research
                       ///< in ~/..."
  std::optional<Instant> expires = std::nullopt;  ///< nullopt: never, or nobody says
  /// Keys of an instance's role stay in use after their end while no new ones are to be had: the
  /// metadata service may have an outage, and EC2 then honours them.
  bool outlive_expiry = false;
};

/// Looks through all places; see the README's table. The first that is set up wins; one that is set
/// up but broken is an error and not skipped. Errors: unauthorised with one sentence that lists
/// where it looked; misconfigured for half a key pair, a broken file or what a profile asks
/// wrongly; retry_later where a service has trouble.
Result<FoundCredentials> resolve_credentials(const AwsChoices& choices, const Surroundings& from);

}  // namespace warmroot::aws
