// Verification of AWS Signature Version 4 as EC2 does it. Written apart from the client's signer,
// so that each checks the other; only the digests (OpenSSL) are shared. Used by the HTTP door of
// the region.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/sim/region_model.hpp"

namespace warmroot::sim {

/// A request as it came over the wire.
struct SignedRequest {
  std::string method;
  std::string target;                                        ///< path and query, undecoded
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case, in order
  std::string body;
};

struct SigningKeys {
  std::string access_key;
  std::string secret_key;
  std::string region;
};

/// Errors: MissingAuthenticationToken, IncompleteSignature, AuthFailure (unknown key),
/// RequestExpired (clocks differ by more than 15 minutes), SignatureDoesNotMatch.
Answer<void> verify_signature(const SignedRequest& request, const SigningKeys& keys, Instant now,
                              const std::string& service = "ec2");

/// The access key that a request is signed with; empty where that cannot be read.
std::string access_key_of(const SignedRequest& request);

/// By its lower-case name; empty when it is not there.
std::string header_of(const SignedRequest& request, const std::string& name);

}  // namespace warmroot::sim
