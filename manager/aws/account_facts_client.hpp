// Reads quotas and keys over signed HTTP with the connection's credentials, for the doctor. Either
// service may be out of reach (a VPC without its endpoint): it is then asked once, not again.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "manager/aws/account_facts.hpp"
#include "manager/aws/signed_http.hpp"

namespace warmroot::aws {

/// One thread.
class AccountFactsClient {
 public:
  /// Shares the connection's credentials and settings, which outlive it.
  explicit AccountFactsClient(const Connection& connection) : connection_(connection) {}

  /// Errors: decode_service_quota()'s and SignedHttp's; misconfigured when the endpoint is.
  Result<double> service_quota(const std::string& service, const std::string& code);
  /// Errors: as service_quota(), decode_key()'s.
  Result<KmsKey> key(const std::string& key);

 private:
  struct Door {
    Service service;
    std::unique_ptr<SignedHttp> http{};
    std::optional<Error> closed{};  ///< why it is not asked any more
  };
  Result<HttpReply> post(Door& door, const JsonCall& call);

  const Connection& connection_;
  Door quotas_{Service::service_quotas};
  Door keys_{Service::kms};
};

}  // namespace warmroot::aws
