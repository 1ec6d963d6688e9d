// What bootstraps send, read without trust, and what they are answered: JSON to structs and back,
// and the authenticity of a report. Pure but for OpenSSL's digests. Used by reports.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/secret.hpp"
#include "manager/core/node_report.hpp"

namespace warmroot::manager {

/// Body of POST /v1/hello.
struct Hello {
  std::string instance_id;
  std::string deployment;
  std::string pool;
  std::string identity;  ///< see identity.hpp; empty: none
};

/// Errors (all refused): not JSON, too deep, a key missing or of the wrong type, a version we do
/// not speak.
Result<Hello> parse_hello(std::string_view body);

/// Body of POST /v1/report; `received` is left to the caller. Errors as parse_hello's, and an
/// unknown stage.
Result<core::NodeReport> parse_report(std::string_view body);

/// Answer to hello; empty names become null.
std::string hello_answer(const Secret& key_hex, const std::string& node,
                         const std::string& volume_id);

/// Answer to a report: the manager's wishes. `snapshot_id` is what the volume was made from.
/// `error`: why the report is not taken all the same, as in error_answer; empty: it is.
std::string report_answer(bool drain, const std::string& volume_id, const std::string& snapshot_id,
                          const std::string& no_volume, const std::string& error = {});

/// {"error": text}
std::string error_answer(const std::string& text);

/// Lower-case hex HMAC-SHA256 of "<sequence>\n<body>" under the 64 hexadecimal digits of `key_hex`.
std::string report_signature(const Secret& key_hex, std::uint64_t sequence, std::string_view body);

/// Compares without telling by its duration where two texts differ.
bool equal_in_constant_time(std::string_view left, std::string_view right);

/// 32 random bytes as hex.
Secret new_report_key();

}  // namespace warmroot::manager
