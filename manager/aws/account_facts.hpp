// Two reads beside EC2 that only the doctor makes: a quota as it is applied to the account (Service
// Quotas) and what KMS says of a key. JSON 1.1, pure; account_facts_client.hpp sends them. Source:
// API references of Service Quotas (2019-06-24) and KMS (2014-11-01), botocore's models.
#pragma once

#include <string>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/result.hpp"

namespace warmroot::aws {

struct JsonCall {
  std::string target;  ///< the X-Amz-Target header
  std::string body;
};

/// What EBS asks of a key.
struct KmsKey {
  std::string arn;
  std::string state;  ///< "Enabled", "Disabled", "PendingDeletion", ...
  std::string usage;  ///< "ENCRYPT_DECRYPT", "SIGN_VERIFY", ...
  std::string spec;   ///< "SYMMETRIC_DEFAULT", "RSA_2048", ...; empty: not told
};

/// `service` and `code` as Service Quotas names them: "ec2", "L-34B43A08".
JsonCall encode_get_service_quota(const std::string& service, const std::string& code);
/// `key`: an id, an alias (alias/name), or either's ARN.
JsonCall encode_describe_key(const std::string& key);

/// The service's code of an error reply ("NoSuchResourceException"); empty on success.
std::string json_code_of(const HttpReply& reply);

/// The applied value. Errors: unauthorised; gone where the account has no value of its own;
/// misconfigured, retry_later (throttles, 5xx), refused, broken.
Result<double> decode_service_quota(const HttpReply& reply);
/// Errors: misconfigured when there is no such key, else as decode_service_quota().
Result<KmsKey> decode_key(const HttpReply& reply);

}  // namespace warmroot::aws
