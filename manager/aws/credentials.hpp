// Who we are and where EC2 is: keys, Region and endpoint from the command line, the environment and
// the files of the AWS CLI. This version reads static keys (with or without session token) and says
// so where a profile asks for more. The CLI calls resolve_aws(); HttpTransport calls
// resolve_credentials() again when a token has expired.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "manager/aws/endpoint.hpp"
#include "manager/aws/sigv4.hpp"

namespace warmroot::aws {

/// What the operator said on the command line or in the spec; empty: not said.
struct AwsChoices {
  std::string profile;
  std::string region;
  std::string endpoint_url;
};

/// The process's surroundings, so that tests need no real ones.
struct Surroundings {
  /// The variable's value; nullopt when unset. An empty variable counts as unset.
  std::function<std::optional<std::string>(const std::string& name)> variable;
  /// The whole file. Errors: gone when there is none.
  std::function<Result<std::string>(const std::string& path)> read_file;
};

/// The real environment and file system.
Surroundings real_surroundings();

struct FoundCredentials {
  Credentials credentials;
  std::string source;  ///< where they were found, for people: "the environment", "profile research
                       ///< in ~/..."
};

/// Keys: environment (skipped when a profile is chosen explicitly), shared credentials file, config
/// file. Errors: unauthorised with one sentence that lists where it looked; misconfigured for half
/// a key pair, a broken file, or a profile that needs a role, SSO or a process.
Result<FoundCredentials> resolve_credentials(const AwsChoices& choices, const Surroundings& from);

/// explicit > AWS_REGION > AWS_DEFAULT_REGION > the profile's. Errors: misconfigured.
Result<std::string> resolve_region(const AwsChoices& choices, const Surroundings& from);

/// explicit > AWS_ENDPOINT_URL_EC2 > AWS_ENDPOINT_URL > the profile's services section > its
/// endpoint_url > the Region's own. AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true leaves the explicit
/// one and the Region's. Errors: misconfigured.
Result<Endpoint> resolve_endpoint(const AwsChoices& choices, const std::string& region,
                                  const Surroundings& from);

struct AwsSettings {
  FoundCredentials found;
  std::string region;
  Endpoint endpoint;
};

/// All three. Errors: the first of them.
Result<AwsSettings> resolve_aws(const AwsChoices& choices, const Surroundings& from);

}  // namespace warmroot::aws
