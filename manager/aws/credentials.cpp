// See credentials.hpp. The order of places is botocore's.
#include "manager/aws/credentials.hpp"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "manager/aws/aws_ini.hpp"

namespace warmroot::aws {
namespace {

constexpr const char* kExport =
    "run `eval \"$(aws configure export-credentials --format env)\"` (with --profile NAME where "
    "needed) first, or give it an IAM user's keys";

std::string variable(const Surroundings& from, const char* name) {
  return from.variable(name).value_or("");
}

/// One file of the AWS CLI: its path as the operator sees it and what is in it.
struct AwsFile {
  std::string path;
  AwsIni sections;

  const AwsSection* section(const std::string& name) const {
    const auto found = sections.find(name);
    return found == sections.end() ? nullptr : &found->second;
  }
};

Result<AwsFile> load(const Surroundings& from, const char* path_variable, const char* name) {
  AwsFile file{variable(from, path_variable), {}};
  if (file.path.empty()) file.path = variable(from, "HOME") + "/.aws/" + name;
  Result<std::string> text = from.read_file(file.path);
  if (!text) {
    if (text.error().kind == ErrorKind::gone) return file;
    return fail(std::move(text).error().within("reading " + file.path));
  }
  Result<AwsIni> sections = parse_aws_ini(*text);
  if (!sections) return fail(std::move(sections).error().within(file.path));
  file.sections = std::move(*sections);
  return file;
}

struct Profile {
  std::string name;
  bool named = false;  ///< by the command line or the environment, not the default
  AwsFile credentials;
  AwsFile config;
  AwsSection in_credentials;
  AwsSection in_config;

  bool exists() const {
    return credentials.section(name) != nullptr || config.section("profile " + name) != nullptr ||
           (name == "default" && config.section(name) != nullptr);
  }
  std::string value(const std::string& key) const {
    for (const AwsSection* section : {&in_config, &in_credentials}) {
      const auto found = section->find(key);
      if (found != section->end()) return found->second;
    }
    return {};
  }
};

Result<Profile> load_profile(const AwsChoices& choices, const Surroundings& from) {
  Profile profile;
  profile.name = choices.profile;
  for (const char* name : {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"})
    if (profile.name.empty()) profile.name = variable(from, name);
  profile.named = !profile.name.empty();
  if (!profile.named) profile.name = "default";
  TRY_ASSIGN(profile.credentials, load(from, "AWS_SHARED_CREDENTIALS_FILE", "credentials"));
  TRY_ASSIGN(profile.config, load(from, "AWS_CONFIG_FILE", "config"));
  if (const AwsSection* section = profile.credentials.section(profile.name))
    profile.in_credentials = *section;
  if (const AwsSection* section = profile.config.section("profile " + profile.name))
    profile.in_config = *section;
  else if (profile.name == "default" && profile.config.section("default") != nullptr)
    profile.in_config = *profile.config.section("default");
  return profile;
}

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

Result<std::optional<Credentials>> static_keys(const AwsSection& section,
                                               const std::string& where) {
  const auto get = [&section](const char* key) {
    const auto found = section.find(key);
    return found == section.end() ? std::string{} : found->second;
  };
  return static_keys(get, "aws_access_key_id", "aws_secret_access_key", "aws_session_token", where);
}

/// What this version cannot do for the profile, named by the setting that asks for it.
Ok check_supported(const Profile& profile) {
  for (const char* key : {"role_arn", "web_identity_token_file", "sso_session", "sso_start_url",
                          "sso_account_id", "login_session"}) {
    if (profile.value(key).empty()) continue;
    return fail(ErrorKind::misconfigured,
                "profile " + profile.name + " asks for " + key +
                    ", but this version reads static keys only: " + kExport);
  }
  return {};
}

std::string nothing_found(const AwsChoices& choices, const Surroundings& from,
                          const Profile& profile) {
  std::string text = "no AWS credentials: looked at ";
  text += choices.profile.empty() ? "the environment (AWS_ACCESS_KEY_ID), "
                                  : "no environment, because --profile was given, ";
  text += "profile " + profile.name + " in " + profile.credentials.path + " and in " +
          profile.config.path;
  if (profile.named && !profile.exists()) text += " (neither has such a profile)";
  for (const char* name : {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                           "AWS_CONTAINER_CREDENTIALS_FULL_URI"})
    if (!variable(from, name).empty()) text += "; " + std::string(name) + " is set but not read";
  return text +
         "; this version reads static keys only: set AWS_ACCESS_KEY_ID and "
         "AWS_SECRET_ACCESS_KEY, or run `aws configure`, or " +
         kExport;
}

}  // namespace

Surroundings real_surroundings() {
  return {[](const std::string& name) -> std::optional<std::string> {
            const char* value = std::getenv(name.c_str());
            if (value == nullptr) return std::nullopt;
            return std::string(value);
          },
          [](const std::string& path) -> Result<std::string> {
            errno = 0;
            std::ifstream file(path, std::ios::binary);
            if (!file) return fail_errno(path);
            return std::string(std::istreambuf_iterator<char>(file), {});
          }};
}

Result<FoundCredentials> resolve_credentials(const AwsChoices& choices, const Surroundings& from) {
  if (choices.profile.empty()) {
    const auto get = [&from](const char* name) { return variable(from, name); };
    TRY_ASSIGN(auto keys, static_keys(get, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                      "AWS_SESSION_TOKEN", "the environment"));
    if (keys) return FoundCredentials{std::move(*keys), "the environment"};
  }
  TRY_ASSIGN(const Profile profile, load_profile(choices, from));
  // A role or SSO goes before static keys of the same profile, so it may not be passed over in
  // silence.
  TRY(check_supported(profile));
  const std::string in_credentials = "profile " + profile.name + " in " + profile.credentials.path;
  TRY_ASSIGN(auto shared, static_keys(profile.in_credentials, in_credentials));
  if (shared) return FoundCredentials{std::move(*shared), in_credentials};
  if (!profile.value("credential_process").empty())
    return fail(
        ErrorKind::misconfigured,
        "profile " + profile.name +
            " asks for credential_process, but this version reads static keys only: " + kExport);
  const std::string in_config = "profile " + profile.name + " in " + profile.config.path;
  TRY_ASSIGN(auto config, static_keys(profile.in_config, in_config));
  if (config) return FoundCredentials{std::move(*config), in_config};
  return fail(ErrorKind::unauthorised, nothing_found(choices, from, profile));
}

Result<std::string> resolve_region(const AwsChoices& choices, const Surroundings& from) {
  std::string region = choices.region;
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
    if (region.empty()) region = variable(from, name);
  if (!region.empty()) return region;
  TRY_ASSIGN(const Profile profile, load_profile(choices, from));
  if (profile.named && !profile.exists())
    return fail(ErrorKind::misconfigured,
                "there is no profile " + profile.name + " in " + profile.credentials.path +
                    " or in " + profile.config.path + ": correct --profile or AWS_PROFILE");
  region = profile.value("region");
  if (!region.empty()) return region;
  return fail(ErrorKind::misconfigured,
              "no Region: give --region, or set AWS_REGION, or set region for profile " +
                  profile.name + " in " + profile.config.path);
}

Result<Endpoint> resolve_endpoint(const AwsChoices& choices, const std::string& region,
                                  const Surroundings& from) {
  if (!choices.endpoint_url.empty()) return parse_endpoint(choices.endpoint_url);
  if (variable(from, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") == "true")
    return default_ec2_endpoint(region);
  for (const char* name : {"AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL"})
    if (const std::string url = variable(from, name); !url.empty()) return parse_endpoint(url);
  TRY_ASSIGN(const Profile profile, load_profile(choices, from));
  if (const AwsSection* services =
          profile.config.section("services " + profile.value("services"))) {
    const auto found = services->find("ec2.endpoint_url");
    if (found != services->end()) return parse_endpoint(found->second);
  }
  if (const std::string url = profile.value("endpoint_url"); !url.empty())
    return parse_endpoint(url);
  return default_ec2_endpoint(region);
}

Result<AwsSettings> resolve_aws(const AwsChoices& choices, const Surroundings& from) {
  AwsSettings settings;
  TRY_ASSIGN(settings.region, resolve_region(choices, from));
  TRY_ASSIGN(settings.endpoint, resolve_endpoint(choices, settings.region, from));
  TRY_ASSIGN(settings.found, resolve_credentials(choices, from));
  return settings;
}

}  // namespace warmroot::aws
