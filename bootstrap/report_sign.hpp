// The signature under every report: HMAC-SHA256 over the sequence number and the body, with the key
// that the manager handed out at hello. Pure. The manager's reports.cpp checks the same bytes with
// OpenSSL's HMAC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace warmroot::bootstrap {

/// HMAC-SHA256 (RFC 2104) as 64 lower-case hex digits.
std::string hmac_sha256_hex(std::string_view key, std::string_view message);

/// Value of X-Warmroot-Signature: the HMAC of "<sequence>\n" + body.
std::string sign_report(std::string_view key, std::uint64_t sequence, std::string_view body);

/// The key's bytes from the 64 hex digits of the hello answer; nullopt when it is anything else.
std::optional<std::string> parse_key(std::string_view hex);

}  // namespace warmroot::bootstrap
