// Keys that stand as they are in the environment or in one of the two files.
#include "manager/aws/credentials_provider.hpp"

namespace warmroot::aws {
namespace {

constexpr const char* kExport =
    "run `eval \"$(aws configure export-credentials --format env)\"` (with --profile NAME where "
    "needed) first";

/// Static keys from anything that has values by name. nullopt: neither half is there.
template <typename Get>
Result<std::optional<Credentials>> static_keys(Get get, const char* id, const char* secret,
                                               const char* token, const std::string& where) {
  Credentials keys{get(id), Secret(get(secret)), Secret(get(token))};
  if (keys.access_key_id.empty() && keys.secret_access_key.empty())
    return std::optional<Credentials>{};
  if (keys.access_key_id.empty() || keys.secret_access_key.empty())
    return fail(ErrorKind::misconfigured,
                where + " has only one of " + id + " and " + secret + "; set both or none");
  return std::optional<Credentials>(std::move(keys));
}

Looked of_section(const AwsSection* section, const Lookup& lookup, const AwsFile& file) {
  if (section == nullptr) return std::optional<FoundCredentials>{};
  const auto get = [section](const std::string& key) {
    const auto found = section->find(key);
    return found == section->end() ? std::string{} : found->second;
  };
  // boto's old name is still written by tools that hand out temporary keys.
  const char* token = get("aws_session_token").empty() ? "aws_security_token" : "aws_session_token";
  const std::string where = lookup.label() + " in " + file.path;
  TRY_ASSIGN(auto keys,
             static_keys(get, "aws_access_key_id", "aws_secret_access_key", token, where));
  if (!keys) return std::optional<FoundCredentials>{};
  return std::optional<FoundCredentials>({std::move(*keys), where});
}

}  // namespace

Looked find_environment(const Lookup& lookup) {
  if (!lookup.environment) return std::optional<FoundCredentials>{};
  const auto get = [&lookup](const char* name) { return lookup.from.value(name); };
  TRY_ASSIGN(auto keys, static_keys(get, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                    "AWS_SESSION_TOKEN", "the environment"));
  if (!keys) return std::optional<FoundCredentials>{};
  FoundCredentials found{std::move(*keys), "the environment"};
  // `aws configure export-credentials` writes it; the keys cannot be renewed from inside.
  found.expires = parse_loose_time(lookup.from.value("AWS_CREDENTIAL_EXPIRATION"));
  return std::optional<FoundCredentials>(std::move(found));
}

Looked find_shared_file(const Lookup& lookup) {
  return of_section(lookup.files.in_credentials(lookup.profile), lookup, lookup.files.credentials);
}

Looked find_config_file(const Lookup& lookup) {
  return of_section(lookup.files.in_config(lookup.profile), lookup, lookup.files.config);
}

/// What the AWS CLI alone can use, so it must not be passed over in silence.
Looked find_login(const Lookup& lookup) {
  if (lookup.value("login_session").empty()) return std::optional<FoundCredentials>{};
  return fail(ErrorKind::misconfigured,
              lookup.label() + " asks for login_session, which warmroot cannot use: " + kExport);
}

}  // namespace warmroot::aws
