// Sends STS calls. Used to learn the account, and by the credential providers that assume roles.
#pragma once

#include "manager/aws/aws_settings.hpp"
#include "manager/aws/sts.hpp"

namespace warmroot::aws {

class StsClient {
 public:
  /// The STS of the operator's settings. `from` must outlive it. Errors: misconfigured.
  static Result<StsClient> of_settings(const AwsChoices& choices, const std::string& region,
                                       const Surroundings& from);

  /// Whose keys these are; needs no permission. Errors: as decode_caller_identity()'s; retry_later
  /// when STS cannot be reached.
  Result<CallerIdentity> get_caller_identity(const Credentials& credentials) const;
  Result<TemporaryCredentials> assume_role(const Credentials& credentials,
                                           const AssumeRole& call) const;
  /// Not signed: the token is the proof.
  Result<TemporaryCredentials> assume_role(const AssumeRoleWithWebIdentity& call) const;

  const Endpoint& endpoint() const { return address_.endpoint; }

 private:
  explicit StsClient(const Surroundings& from) : from_(&from) {}
  Result<HttpReply> post(const std::string& body, const Credentials* credentials) const;
  HttpRequest request_for(const std::string& body, const Credentials* credentials,
                          Milliseconds skew) const;

  const Surroundings* from_;
  ServiceAddress address_;
  std::string ca_file_;
};

}  // namespace warmroot::aws
