// See sigv4.hpp. The rules people get wrong are named where they are followed.
#include "manager/aws/sigv4.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <map>

#include "bootstrap/base/words.hpp"

namespace warmroot::aws {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  unsigned int length = 0;
  const auto* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                          digest.data(), &length);
  CHECK(made != nullptr && length == digest.size());
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// Trimmed, and every run of white space (a folded line too, and inside quotes too) as one space.
std::string folded(std::string_view value) {
  std::string out;
  bool space = false;
  for (const char c : value) {
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      space = !out.empty();
      continue;
    }
    if (space) out += ' ';
    space = false;
    out += c;
  }
  return out;
}

/// Hop-by-hop headers and those that proxies or libcurl change or add on their own.
bool is_signable(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kNever = {
      "authorization", "connection", "expect",     "keep-alive",        "te",
      "trailer",       "upgrade",    "user-agent", "transfer-encoding", "x-amzn-trace-id"};
  return std::find(kNever.begin(), kNever.end(), name) == kNever.end() &&
         name.substr(0, 6) != "proxy-";
}

std::string credential_scope(const SigningScope& scope) {
  // The date is cut out of the same text as x-amz-date: two clock readings could straddle midnight.
  return to_compact_iso8601(scope.time).substr(0, 8) + "/" + scope.region + "/" + scope.service +
         "/aws4_request";
}

}  // namespace

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string canonical_path(std::string_view path) {
  std::vector<std::string_view> segments;
  bool trailing_slash = true;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    const std::string_view segment = path.substr(0, end);
    trailing_slash =
        end != std::string_view::npos || segment.empty() || segment == "." || segment == "..";
    path = end == std::string_view::npos ? std::string_view{} : path.substr(end + 1);
    if (segment.empty() || segment == ".") continue;
    if (segment != "..") {
      segments.push_back(segment);
    } else if (!segments.empty()) {
      segments.pop_back();
    }
  }
  std::string out;
  for (const std::string_view segment : segments) out += "/" + percent_encode(segment);
  if (out.empty() || trailing_slash) out += '/';
  return out;
}

std::string canonical_query(const Form& query) {
  Form encoded;
  for (const auto& [key, value] : query)
    encoded.emplace_back(percent_encode(key), percent_encode(value));
  // Sorted after encoding: the encoded bytes order differently from the plain ones.
  std::sort(encoded.begin(), encoded.end());
  std::string out;
  for (const auto& [key, value] : encoded) {
    if (!out.empty()) out += '&';
    out += key + "=" + value;
  }
  return out;
}

CanonicalRequest canonical_request(const SigningRequest& request) {
  std::map<std::string, std::string> headers;
  for (const auto& [name, value] : request.headers) {
    const std::string key = lower(name);
    if (!is_signable(key)) continue;
    // Duplicates are joined in their order of appearance, not sorted.
    const auto [entry, is_new] = headers.try_emplace(key, folded(value));
    if (!is_new) entry->second += "," + folded(value);
  }
  CanonicalRequest out;
  out.text = request.method + "\n" + canonical_path(request.path) + "\n" +
             canonical_query(request.query) + "\n";
  for (const auto& [name, value] : headers) {
    out.text += name + ":" + value + "\n";
    if (!out.signed_headers.empty()) out.signed_headers += ';';
    out.signed_headers += name;
  }
  out.text += "\n" + out.signed_headers + "\n" + sha256_hex(request.body);
  return out;
}

std::string string_to_sign(const SigningScope& scope, std::string_view canonical_text) {
  return std::string(kAlgorithm) + "\n" + to_compact_iso8601(scope.time) + "\n" +
         credential_scope(scope) + "\n" + sha256_hex(canonical_text);
}

std::string signing_key(const Secret& secret, const SigningScope& scope) {
  const std::string date = to_compact_iso8601(scope.time).substr(0, 8);
  return hmac(hmac(hmac(hmac("AWS4" + secret.reveal(), date), scope.region), scope.service),
              "aws4_request");
}

std::string signature(std::string_view key, std::string_view text) {
  return hex(hmac(key, text));
}

Headers sign(const SigningRequest& request, const Credentials& credentials,
             const SigningScope& scope) {
  Headers added = {{"x-amz-date", to_compact_iso8601(scope.time)}};
  if (!credentials.session_token.empty())
    added.emplace_back("x-amz-security-token", credentials.session_token.reveal());
  SigningRequest whole = request;
  whole.headers.insert(whole.headers.end(), added.begin(), added.end());
  const CanonicalRequest canonical = canonical_request(whole);
  const std::string signed_text = string_to_sign(scope, canonical.text);
  added.emplace_back("Authorization",
                     std::string(kAlgorithm) + " Credential=" + credentials.access_key_id + "/" +
                         credential_scope(scope) + ", SignedHeaders=" + canonical.signed_headers +
                         ", Signature=" +
                         signature(signing_key(credentials.secret_access_key, scope), signed_text));
  return added;
}

}  // namespace warmroot::aws
