// See credentials_json.hpp.
#include "manager/aws/credentials_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bootstrap/base/nesting.hpp"

namespace warmroot::aws {
namespace {

using nlohmann::json;

tl::unexpected<Error> not_understood(const std::string& what) {
  return fail(ErrorKind::broken, what);
}

/// Other programs' objects nest three deep. Writing a token file back recurses as deep as it is.
constexpr int kDeepest = 32;

Result<json> parse_object(std::string_view text) {
  if (text.size() > kMaxCredentialsText) return not_understood("it is longer than 64 KiB");
  if (nests_deeper(text, kDeepest)) return not_understood("it is nested too deep");
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) return not_understood("it is no JSON");
  if (!value.is_object()) return not_understood("it is no JSON object");
  return value;
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

/// Control characters would let a key or a token add headers to our requests.
bool is_clean(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

struct Keys {
  const char* id;
  const char* secret;
  const char* token;
};

Result<Credentials> credentials_at(const json& object, const Keys& keys) {
  Credentials out;
  out.access_key_id = text_at(object, keys.id);
  out.secret_access_key = Secret(text_at(object, keys.secret));
  out.session_token = Secret(text_at(object, keys.token));
  if (out.access_key_id.empty() || out.secret_access_key.empty())
    return not_understood(std::string("it has no ") + keys.id + " or no " + keys.secret);
  if (!is_clean(out.access_key_id) || !is_clean(out.secret_access_key.reveal()) ||
      !is_clean(out.session_token.reveal()))
    return not_understood("a key in it has characters that keys do not have");
  return out;
}

/// nullopt where there is none; an error where it cannot be read.
Result<std::optional<Instant>> expiration_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::optional<Instant>{};
  if (found->is_string())
    if (const auto time = parse_loose_time(found->get<std::string>())) return time;
  return not_understood(std::string("its ") + key + " is no time");
}

Result<TemporaryCredentials> upper_case_form(const json& object, const char* token) {
  TemporaryCredentials out;
  TRY_ASSIGN(out.credentials, credentials_at(object, {"AccessKeyId", "SecretAccessKey", token}));
  TRY_ASSIGN(out.expires, expiration_at(object, "Expiration"));
  return out;
}

/// A word to show to people: short and of harmless characters.
std::string shown(const std::string& text) {
  constexpr std::size_t kMost = 64;
  const bool harmless = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  });
  return harmless && text.size() <= kMost ? text : "unreadable";
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// "+01:00", "-0130", "Z", "UTC" as minutes; nullopt for anything else.
std::optional<int> offset_minutes(std::string_view zone) {
  if (zone == "Z" || zone == "UTC") return 0;
  if (zone.empty() || (zone.front() != '+' && zone.front() != '-')) return std::nullopt;
  std::string digits(zone.substr(1));
  std::erase(digits, ':');
  if (digits.size() != 4 || !all_digits(digits)) return std::nullopt;
  const int minutes = std::stoi(digits.substr(0, 2)) * 60 + std::stoi(digits.substr(2));
  return zone.front() == '-' ? -minutes : minutes;
}

}  // namespace

std::optional<Instant> parse_loose_time(std::string_view text) {
  constexpr std::size_t kSeconds = 19;  // 2026-01-02T03:04:05
  if (text.size() <= kSeconds) return std::nullopt;
  std::string_view rest = text.substr(kSeconds);
  if (rest.front() == '.') {
    rest.remove_prefix(1);
    const auto end =
        std::find_if(rest.begin(), rest.end(), [](char c) { return c < '0' || c > '9'; });
    rest.remove_prefix(static_cast<std::size_t>(end - rest.begin()));
  }
  const auto offset = offset_minutes(rest);
  const auto time = parse_iso8601(std::string(text.substr(0, kSeconds)) + "Z");
  if (!offset || !time) return std::nullopt;
  return *time - std::chrono::minutes(*offset);
}

Result<TemporaryCredentials> parse_process_credentials(std::string_view text) {
  TRY_ASSIGN(const json object, parse_object(text));
  const auto version = object.find("Version");
  if (version == object.end() || !version->is_number_integer() || *version != 1)
    return not_understood("its Version is not 1");
  return upper_case_form(object, "SessionToken");
}

Result<TemporaryCredentials> parse_metadata_credentials(std::string_view text) {
  TRY_ASSIGN(const json object, parse_object(text));
  const std::string code = text_at(object, "Code");
  if (!code.empty() && code != "Success") return not_understood("it says " + shown(code));
  return upper_case_form(object, "Token");
}

Result<TemporaryCredentials> parse_sso_credentials(std::string_view text) {
  TRY_ASSIGN(const json object, parse_object(text));
  const auto inner = object.find("roleCredentials");
  if (inner == object.end() || !inner->is_object())
    return not_understood("it has no roleCredentials");
  TemporaryCredentials out;
  TRY_ASSIGN(out.credentials,
             credentials_at(*inner, {"accessKeyId", "secretAccessKey", "sessionToken"}));
  const auto expires = inner->find("expiration");
  constexpr std::int64_t kYear10000 = 253'402'300'800'000;
  if (expires == inner->end() || !expires->is_number_integer() || *expires < 0 ||
      *expires > kYear10000)
    return not_understood("its expiration is no time");
  out.expires = Instant(Milliseconds(expires->get<std::int64_t>()));
  return out;
}

Result<SsoToken> parse_sso_token(std::string_view text) {
  TRY_ASSIGN(const json object, parse_object(text));
  SsoToken token;
  token.access_token = Secret(text_at(object, "accessToken"));
  const auto expires = parse_loose_time(text_at(object, "expiresAt"));
  if (token.access_token.empty() || !expires)
    return not_understood("it has no accessToken or no expiresAt");
  if (!is_clean(token.access_token.reveal()))
    return not_understood("its accessToken has characters that tokens do not have");
  token.expires = *expires;
  token.refresh_token = Secret(text_at(object, "refreshToken"));
  token.client_id = text_at(object, "clientId");
  token.client_secret = Secret(text_at(object, "clientSecret"));
  token.registration_expires = parse_loose_time(text_at(object, "registrationExpiresAt"));
  return token;
}

std::string sso_renewal_request(const SsoToken& token) {
  return json{{"clientId", token.client_id},
              {"clientSecret", token.client_secret.reveal()},
              {"grantType", "refresh_token"},
              {"refreshToken", token.refresh_token.reveal()}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::string> renewed_sso_token(std::string_view file, std::string_view reply, Instant now) {
  TRY_ASSIGN(json object, parse_object(file));
  TRY_ASSIGN(const json answer, parse_object(reply));
  const std::string token = text_at(answer, "accessToken");
  const auto life = answer.find("expiresIn");
  constexpr std::int64_t kMostSeconds = 366LL * 24 * 3600;
  if (token.empty() || life == answer.end() || !life->is_number_integer() || *life < 0 ||
      *life > kMostSeconds)
    return not_understood("it has no accessToken or no expiresIn");
  object["accessToken"] = token;
  const Instant end = now + std::chrono::seconds(life->get<std::int64_t>());
  object["expiresAt"] = to_iso8601(end).substr(0, 19) + "Z";
  // Each refresh token is good for once where the answer holds a new one.
  if (const std::string next = text_at(answer, "refreshToken"); !next.empty())
    object["refreshToken"] = next;
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace warmroot::aws
