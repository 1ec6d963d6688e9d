// See the header.
#include "tests/sim/server_sigv4.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/sim/query_form.hpp"

namespace warmroot::sim {

namespace {

/// Clock difference that EC2 accepts.
constexpr Milliseconds kMaxSkew{15 * 60'000};

std::string hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char letter : bytes) {
    const auto byte = static_cast<unsigned char>(letter);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string sha256(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  return {reinterpret_cast<char*>(digest), size};
}

std::string hmac(const std::string& key, const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  return {reinterpret_cast<char*>(digest), size};
}

/// RFC 3986 with upper-case hex; nothing but letters, digits and -_.~ stays bare.
std::string uri_encode(const std::string& text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0 ||
        std::string_view("-_.~").find(letter) != std::string_view::npos) {
      out += letter;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

/// Outer space cut, inner runs of spaces made one.
std::string trimmed(const std::string& value) {
  std::istringstream words(value);
  std::string out, word;
  while (words >> word) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string canonical_query(const std::string& query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::istringstream parts(query);
  for (std::string part; std::getline(parts, part, '&');) {
    if (part.empty()) continue;
    const auto equals = std::min(part.find('='), part.size());
    const auto name = url_decode(part.substr(0, equals));
    const auto value = url_decode(equals < part.size() ? part.substr(equals + 1) : "");
    pairs.emplace_back(uri_encode(name.value_or("")), uri_encode(value.value_or("")));
  }
  std::sort(pairs.begin(), pairs.end());
  std::string out;
  for (const auto& [name, value] : pairs) {
    out += out.empty() ? "" : "&";
    out += name + "=" + value;
  }
  return out;
}

struct Authorization {
  std::string access_key, date, region, service, terminator, signature;
  std::vector<std::string> signed_headers;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, separator);) out.push_back(part);
  return out;
}

Answer<Authorization> parse_authorization(const std::string& value) {
  const auto incomplete = [](const std::string& why) {
    return refuse("IncompleteSignature", "Authorization header requires " + why);
  };
  constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256 ";
  if (!value.starts_with(kAlgorithm)) return incomplete("the algorithm AWS4-HMAC-SHA256.");
  std::map<std::string, std::string> parts;
  for (const auto& part : split(value.substr(kAlgorithm.size()), ',')) {
    const std::string text = trimmed(part);
    const auto equals = text.find('=');
    if (equals != std::string::npos) parts[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const char* name : {"Credential", "SignedHeaders", "Signature"})
    if (parts[name].empty()) return incomplete("'" + std::string(name) + "' parameter.");
  const auto scope = split(parts["Credential"], '/');
  if (scope.size() != 5) return incomplete("a credential of five parts.");
  return Authorization{scope[0],
                       scope[1],
                       scope[2],
                       scope[3],
                       scope[4],
                       parts["Signature"],
                       split(parts["SignedHeaders"], ';')};
}

tl::unexpected<ApiError> mismatch(const std::string& why = {}) {
  return refuse("SignatureDoesNotMatch",
                why.empty()
                    ? "The request signature we calculated does not match the signature you "
                      "provided. Check your AWS Secret Access Key and signing method. "
                      "Consult the service documentation for details."
                    : why,
                403);
}

/// Repeated headers are joined by commas in order of appearance.
std::map<std::string, std::string> joined(const SignedRequest& request) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : request.headers) {
    const auto [found, fresh] = out.emplace(name, trimmed(value));
    if (!fresh) found->second += "," + trimmed(value);
  }
  return out;
}

std::string canonical_request(const SignedRequest& request, const Authorization& auth,
                              const std::map<std::string, std::string>& headers) {
  const auto question = std::min(request.target.find('?'), request.target.size());
  const std::string path = request.target.substr(0, question);
  std::string out = request.method + "\n" + (path.empty() ? "/" : path) + "\n";
  out +=
      canonical_query(question < request.target.size() ? request.target.substr(question + 1) : "") +
      "\n";
  std::string names;
  for (const auto& name : auth.signed_headers) {
    const auto found = headers.find(name);
    out += name + ":" + (found == headers.end() ? "" : found->second) + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  return out + "\n" + names + "\n" + hex(sha256(request.body));
}

bool same_text(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string header_of(const SignedRequest& request, const std::string& name) {
  for (const auto& [key, value] : request.headers)
    if (key == name) return value;
  return {};
}

std::string access_key_of(const SignedRequest& request) {
  const auto headers = joined(request);
  const auto header = headers.find("authorization");
  if (header == headers.end()) return {};
  const auto auth = parse_authorization(header->second);
  return auth ? auth->access_key : std::string{};
}

Answer<void> verify_signature(const SignedRequest& request, const SigningKeys& keys, Instant now,
                              const std::string& service) {
  const auto headers = joined(request);
  const auto header = headers.find("authorization");
  if (header == headers.end())
    return refuse("MissingAuthenticationToken",
                  "The request must contain either a valid (registered) AWS access key ID or X.509 "
                  "certificate.",
                  403);
  const auto auth = parse_authorization(header->second);
  if (!auth) return tl::unexpected(auth.error());
  if (auth->access_key != keys.access_key)
    return refuse("AuthFailure", "AWS was not able to validate the provided access credentials",
                  401);
  const auto date = headers.find("x-amz-date");
  const auto sent = date == headers.end() ? std::nullopt : parse_iso8601(date->second);
  if (!sent)
    return refuse("IncompleteSignature",
                  "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' "
                  "header.");
  if (std::chrono::abs(*sent - now) > kMaxSkew)
    return refuse("RequestExpired", "Request has expired.");
  if (auth->date != date->second.substr(0, 8))
    return mismatch(
        "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date "
        "from HTTP.");
  if (auth->service != service)
    return mismatch("Credential should be scoped to correct service: '" + service + "'.");
  if (auth->region != keys.region || auth->terminator != "aws4_request")
    return mismatch("Credential should be scoped to a valid region, not '" + auth->region + "'.");
  const auto& listed = auth->signed_headers;
  for (const char* name : {"host", "x-amz-date", "x-amz-security-token"})
    if (headers.contains(name) && std::find(listed.begin(), listed.end(), name) == listed.end())
      return mismatch("'" + std::string(name) + "' must be a signed header.");
  const std::string scope = auth->date + "/" + auth->region + "/" + service + "/aws4_request";
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + date->second + "\n" + scope + "\n" +
                              hex(sha256(canonical_request(request, *auth, headers)));
  std::string key = "AWS4" + keys.secret_key;
  for (const std::string& part : {auth->date, auth->region, service, std::string("aws4_request")})
    key = hmac(key, part);
  if (!same_text(hex(hmac(key, to_sign)), auth->signature)) return mismatch();
  return {};
}

}  // namespace warmroot::sim
