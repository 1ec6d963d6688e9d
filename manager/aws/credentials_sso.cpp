// IAM Identity Center (SSO): the token that `aws sso login` has left in the CLI's cache, renewed
// where it can be, exchanged for a role's keys at the portal.
#include <openssl/sha.h>

#include <array>
#include <charconv>

#include "manager/aws/credentials_provider.hpp"
#include "manager/aws/form.hpp"
#include "manager/aws/retry.hpp"

namespace warmroot::aws {
namespace {

constexpr Milliseconds kSsoTimeout{10'000};
/// As botocore's: a token is renewed a quarter of an hour before its end.
constexpr std::chrono::minutes kRenewBefore{15};

/// What the profile says, from itself or from its sso-session.
struct SsoSettings {
  std::string account;
  std::string role;
  std::string region;
  std::string start_url;
  std::string session;  ///< empty: the older form without one
  std::string path;     ///< of the cached token
  std::string login;    ///< the command that makes a new one
};

std::string sha1_hex(const std::string& text) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

Result<SsoSettings> read_settings(const Lookup& lookup) {
  SsoSettings sso;
  sso.account = lookup.value("sso_account_id");
  sso.role = lookup.value("sso_role_name");
  sso.region = lookup.value("sso_region");
  sso.start_url = lookup.value("sso_start_url");
  sso.session = lookup.value("sso_session");
  sso.login = "`aws sso login --profile " + lookup.profile + "`";
  const auto wrong = [&lookup](const std::string& what) {
    return fail(ErrorKind::misconfigured, lookup.label() + ": " + what);
  };
  if (!sso.session.empty()) {
    const AwsSection* section = lookup.files.config.section("sso-session " + sso.session);
    if (section == nullptr)
      return wrong("there is no [sso-session " + sso.session + "] in " + lookup.files.config.path);
    for (const auto& [key, target] :
         {std::pair("sso_region", &sso.region), std::pair("sso_start_url", &sso.start_url)}) {
      const auto found = section->find(key);
      if (found == section->end()) continue;
      if (!target->empty() && *target != found->second)
        return wrong(std::string(key) + " differs from that of its sso-session");
      *target = found->second;
    }
  }
  for (const auto& [key, value] :
       {std::pair("sso_account_id", &sso.account), std::pair("sso_role_name", &sso.role),
        std::pair("sso_region", &sso.region), std::pair("sso_start_url", &sso.start_url)})
    if (value->empty()) return wrong(std::string("SSO needs ") + key + " too");
  sso.path = lookup.from.value("HOME") + "/.aws/sso/cache/" +
             sha1_hex(sso.session.empty() ? sso.start_url : sso.session) + ".json";
  return sso;
}

tl::unexpected<Error> login_needed(const SsoSettings& sso, const std::string& why) {
  return fail(ErrorKind::unauthorised, why + ": run " + sso.login);
}

Result<HttpReply> ask(const Lookup& lookup, const SsoSettings& sso, Service service,
                      HttpRequest request, const std::string& path) {
  TRY_ASSIGN(const ServiceAddress address,
             resolve_service(service, lookup.choices, sso.region, lookup.from));
  TRY_ASSIGN(request.ca_file, resolve_ca_file(lookup.choices, lookup.from));
  std::string url = address.endpoint.url();
  url.pop_back();
  request.url = url + path;
  request.timeout = kSsoTimeout;
  return lookup.from.http(request);
}

/// Reading the role's keys may be repeated, unlike using up a refresh token.
Result<HttpReply> ask_for_keys(const Lookup& lookup, const SsoSettings& sso,
                               const HttpRequest& request, const std::string& path) {
  const auto ask_once = [&] { return ask(lookup, sso, Service::sso, request, path); };
  return ask_repeatedly(lookup.from, ask_once, [](const Result<HttpReply>& reply) {
    constexpr int kTooMany = 429;
    return reply ? has_trouble(reply) || reply->status == kTooMany
                 : reply.error().kind != ErrorKind::misconfigured;
  });
}

/// A new token for the old one; nullopt where it cannot be renewed now. The cache file gets it too:
/// a refresh token is good for once, so that the CLI would be locked out otherwise.
std::optional<SsoToken> renewed(const Lookup& lookup, const SsoSettings& sso,
                                const std::string& file, const SsoToken& token) {
  const Instant now = lookup.from.now();
  const bool can = !sso.session.empty() && !token.refresh_token.empty() &&
                   !token.client_id.empty() && !token.client_secret.empty() &&
                   token.registration_expires && *token.registration_expires > now;
  if (!can) return std::nullopt;
  HttpRequest request;
  request.method = "POST";
  request.headers = {{"content-type", "application/json"}};
  request.body = sso_renewal_request(token);
  const auto reply = ask(lookup, sso, Service::sso_oidc, std::move(request), "/token");
  if (!reply || reply->status != 200) return std::nullopt;
  auto text = renewed_sso_token(file, reply->body, now);
  if (!text) return std::nullopt;
  auto fresh = parse_sso_token(*text);
  if (!fresh) return std::nullopt;
  if (lookup.from.write_file) (void)lookup.from.write_file(sso.path, Secret(std::move(*text)));
  return std::move(*fresh);
}

Result<SsoToken> usable_token(const Lookup& lookup, const SsoSettings& sso) {
  const auto file = lookup.from.read_file(sso.path);
  if (!file) {
    if (file.error().kind != ErrorKind::gone) return fail(file.error());
    return login_needed(sso, lookup.label() + " uses SSO and nobody has logged in yet");
  }
  auto token = parse_sso_token(*file);
  if (!token)
    return login_needed(
        sso, "the SSO token in " + sso.path + " cannot be read (" + token.error().context + ")");
  const Instant now = lookup.from.now();
  if (token->expires - kRenewBefore > now) return token;
  if (auto fresh = renewed(lookup, sso, *file, *token)) return std::move(*fresh);
  if (token->expires > now) return token;
  return login_needed(sso, "the SSO session of " + lookup.label() + " has expired");
}

}  // namespace

Looked find_sso(const Lookup& lookup) {
  bool asked_for = false;
  // A session or its start URL is only for a token; credentials are of an account and a role.
  for (const char* key : {"sso_account_id", "sso_role_name"})
    asked_for = asked_for || !lookup.value(key).empty();
  if (!asked_for) return std::optional<FoundCredentials>{};
  TRY_ASSIGN(const SsoSettings sso, read_settings(lookup));
  TRY_ASSIGN(const SsoToken token, usable_token(lookup, sso));
  HttpRequest request;
  request.headers = {{"x-amz-sso_bearer_token", token.access_token.reveal()}};
  const std::string path = "/federation/credentials?role_name=" + percent_encode(sso.role) +
                           "&account_id=" + percent_encode(sso.account);
  const auto reply = ask_for_keys(lookup, sso, request, path);
  const std::string what = "role " + sso.role + " of account " + sso.account + " by SSO";
  if (!reply) return fail(ErrorKind::retry_later, what + ": " + reply.error().context);
  if (reply->status == 401)
    return login_needed(sso, "the SSO session of " + lookup.label() + " has ended");
  if (reply->status == 403 || reply->status == 404)
    return fail(ErrorKind::unauthorised,
                what + " is not given to you: check sso_account_id and sso_role_name");
  if (reply->status != 200) {
    const ErrorKind kind =
        reply->status >= 500 || reply->status == 429 ? ErrorKind::retry_later : ErrorKind::broken;
    return fail(kind, what + ": the portal answers " + std::to_string(reply->status));
  }
  auto keys = parse_sso_credentials(reply->body);
  if (!keys) return fail(std::move(keys).error().within(what + ": the portal's answer"));
  return std::optional<FoundCredentials>(as_found(std::move(*keys), what));
}

}  // namespace warmroot::aws
