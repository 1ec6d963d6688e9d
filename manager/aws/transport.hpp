// The door through which encoded EC2 calls leave: signed HTTP in production (http_transport), the
// simulated region in one process in tests. Ec2Client writes and reads through it; nothing here
// knows XML or signatures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/result.hpp"

namespace warmroot::aws {

/// Delivers EC2 Query form bodies (`Action=...&Version=2016-11-15&...`). One thread.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Posts all bodies together and returns the replies in the same order; any HTTP status is a
  /// reply. Each body is sent at most once, unless EC2 said without doubt that it was not executed.
  /// Errors: as HttpClient's.
  virtual std::vector<Result<HttpReply>> post(std::span<const std::string> bodies) = 0;
};

}  // namespace warmroot::aws
