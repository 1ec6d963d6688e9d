// OpenSSL's low-level SHA-256 adds 25 KiB to the static binary; its EVP interface, which replaces
// it, adds 2 MiB.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "bootstrap/report_sign.hpp"

#include <openssl/sha.h>

#include <array>

namespace warmroot::bootstrap {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest sha256(std::string_view first, std::string_view second) {
  SHA256_CTX context;
  Digest digest;
  SHA256_Init(&context);
  SHA256_Update(&context, first.data(), first.size());
  SHA256_Update(&context, second.data(), second.size());
  SHA256_Final(digest.data(), &context);
  return digest;
}

std::string_view bytes(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string hmac_sha256_hex(std::string_view key, std::string_view message) {
  std::string block(key);
  if (block.size() > SHA256_CBLOCK) block = bytes(sha256(key, {}));
  block.resize(SHA256_CBLOCK, '\0');
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  const Digest first = sha256(inner, message);
  const Digest second = sha256(outer, bytes(first));
  std::string hex;
  for (const unsigned char byte : second) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::string sign_report(std::string_view key, std::uint64_t sequence, std::string_view body) {
  return hmac_sha256_hex(key, std::to_string(sequence) + "\n" + std::string(body));
}

std::optional<std::string> parse_key(std::string_view hex) {
  if (hex.size() != 2 * SHA256_DIGEST_LENGTH) return std::nullopt;
  std::string key;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = hex_value(hex[i]), low = hex_value(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key += static_cast<char>(high * 16 + low);
  }
  return key;
}

}  // namespace warmroot::bootstrap
