// See credentials.hpp. The order of places is botocore's.
#include "manager/aws/credentials.hpp"

#include <array>

#include "manager/aws/credentials_provider.hpp"

namespace warmroot::aws {
namespace {

constexpr std::array kOfProfile = std::to_array<Provider>({
    {"web identity", find_web_identity},
    {"SSO", find_sso},
    {"shared credentials file", find_shared_file},
    {"login", find_login},
    {"process", find_process},
    {"config file", find_config_file},
});

constexpr std::array kBeforeProfile = std::to_array<Provider>({
    {"environment", find_environment},
    {"assumed role", find_assumed_role},
});

constexpr std::array kOfHost = std::to_array<Provider>({
    {"container", find_container},
    {"instance", find_instance},
});

template <typename Providers>
Looked first_of(const Providers& providers, const Lookup& lookup) {
  for (const Provider& provider : providers) {
    TRY_ASSIGN(auto found, provider.find(lookup));
    if (found) return found;
  }
  return std::optional<FoundCredentials>{};
}

std::string nothing_found(const Lookup& lookup) {
  std::string text = "no AWS credentials: looked at ";
  text += lookup.environment ? "the environment (AWS_ACCESS_KEY_ID), "
                             : "no environment, because --profile was given, ";
  text += lookup.label() + " in " + lookup.files.credentials.path + " and in " +
          lookup.files.config.path;
  for (const std::string& place : lookup.looked) text += ", " + place;
  return text +
         "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run `aws configure` or `aws sso "
         "login`, or give this host a role";
}

}  // namespace

Looked find_of_profile(const Lookup& lookup) {
  return first_of(kOfProfile, lookup);
}

FoundCredentials as_found(TemporaryCredentials keys, std::string source) {
  return {std::move(keys.credentials), std::move(source), keys.expires};
}

Result<FoundCredentials> resolve_credentials(const AwsChoices& choices, const Surroundings& from) {
  std::vector<std::string> looked;
  const bool environment = choices.profile.empty();
  const AwsFiles no_files;
  // Keys of the environment need no file, not even one that could be read.
  Lookup lookup{from,        no_files, choices, choose_profile(choices, from).name,
                environment, {},       looked};
  TRY_ASSIGN(auto keys, find_environment(lookup));
  if (keys) return std::move(*keys);
  TRY_ASSIGN(const ChosenProfile profile, load_profile(choices, from));
  const Lookup whole{from, profile.files, choices, profile.choice.name, environment, {}, looked};
  TRY_ASSIGN(auto before, first_of(kBeforeProfile, whole));
  if (before) return std::move(*before);
  TRY_ASSIGN(auto of_profile, find_of_profile(whole));
  if (of_profile) return std::move(*of_profile);
  TRY_ASSIGN(auto of_host, first_of(kOfHost, whole));
  if (of_host) return std::move(*of_host);
  return fail(ErrorKind::unauthorised, nothing_found(whole));
}

}  // namespace warmroot::aws
