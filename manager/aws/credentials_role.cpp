// Roles assumed through STS: with another profile's or place's credentials, or with the token of an
// identity provider.
#include <algorithm>
#include <charconv>

#include "manager/aws/credentials_provider.hpp"
#include "manager/aws/partition.hpp"
#include "manager/aws/sts_client.hpp"

namespace warmroot::aws {
namespace {

/// What CloudTrail shows where the profile names nothing else.
constexpr const char* kSessionName = "warmroot";

tl::unexpected<Error> wrong(const Lookup& lookup, const std::string& what) {
  return fail(ErrorKind::misconfigured, lookup.label() + ": " + what);
}

/// STS's own rule for RoleSessionName: [\w+=,.@-]{2,64}.
bool is_session_name(const std::string& name) {
  return name.size() >= 2 && name.size() <= 64 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 ||
                  std::string_view("_+=,.@-").find(static_cast<char>(c)) != std::string_view::npos;
         });
}

/// The role's settings, read and checked before anybody is asked.
struct Role {
  std::string arn;
  std::string session_name;
  std::optional<int> duration;
  std::string region;
};

Result<std::optional<int>> duration_of(const Lookup& lookup) {
  const std::string text = lookup.value("duration_seconds");
  if (text.empty()) return std::optional<int>{};
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < kMinRoleSeconds ||
      seconds > kMaxRoleSeconds)
    return wrong(lookup, "duration_seconds has to be a number from 900 to 43200");
  return std::optional<int>(seconds);
}

Result<Role> read_role(const Lookup& lookup, const std::string& arn,
                       const std::string& session_name) {
  Role role{arn, session_name.empty() ? kSessionName : session_name, {}, {}};
  const Arn parts = split_arn(arn);
  if (parts.service != "iam" || !parts.resource.starts_with("role/"))
    return wrong(lookup,
                 "role_arn '" + arn + "' is no role's ARN (arn:aws:iam::ACCOUNT:role/NAME)");
  if (!is_session_name(role.session_name))
    return wrong(lookup, "role_session_name has to be 2 to 64 letters, digits or _+=,.@-");
  TRY_ASSIGN(role.duration, duration_of(lookup));
  TRY_ASSIGN(role.region, resolve_region(lookup.choices, lookup.from));
  const Partition& partition = partition_of(role.region);
  if (parts.partition != partition.id)
    return wrong(lookup, "role_arn '" + arn + "' is of partition " + std::string(parts.partition) +
                             ", but Region " + role.region + " is of " + std::string(partition.id));
  return role;
}

/// The credentials that the role is assumed with.
Looked find_source(const Lookup& lookup);

/// A profile may name itself to keep keys and role in one place; any other way back is a loop.
Looked of_source_profile(const Lookup& lookup, const std::string& name) {
  if (!lookup.files.has_profile(name))
    return wrong(lookup, "source_profile " + name + ": " + lookup.files.no_such_profile(name));
  Lookup source{lookup.from, lookup.files, lookup.choices, name,
                false,       lookup.chain, lookup.looked};
  const bool has_keys =
      !source.value("aws_access_key_id").empty() || !source.value("aws_secret_access_key").empty();
  const bool visited =
      std::find(lookup.chain.begin(), lookup.chain.end(), name) != lookup.chain.end();
  if (visited && !(name == lookup.profile && has_keys))
    return wrong(lookup, "source_profile " + name + " leads back to itself");
  if (!has_keys) {
    TRY_ASSIGN(auto by_role, find_assumed_role(source));
    if (by_role) return by_role;
  }
  TRY_ASSIGN(auto found, find_of_profile(source));
  if (!found) return wrong(lookup, "its source_profile " + name + " has no credentials");
  return found;
}

Looked of_credential_source(const Lookup& lookup, const std::string& name) {
  Lookup source = lookup;
  source.environment = true;
  Looked found = std::optional<FoundCredentials>{};
  if (name == "Environment")
    found = find_environment(source);
  else if (name == "Ec2InstanceMetadata")
    found = find_instance(source);
  else if (name == "EcsContainer")
    found = find_container(source);
  else
    return wrong(lookup,
                 "credential_source has to be Environment, Ec2InstanceMetadata or "
                 "EcsContainer");
  if (!found) return fail(std::move(found).error().within(lookup.label()));
  if (!*found) return wrong(lookup, "its credential_source " + name + " has no credentials");
  return found;
}

Looked find_source(const Lookup& lookup) {
  const std::string profile = lookup.value("source_profile");
  const std::string place = lookup.value("credential_source");
  if (!profile.empty() && !place.empty())
    return wrong(lookup, "both source_profile and credential_source are set; keep one");
  if (!profile.empty()) return of_source_profile(lookup, profile);
  if (!place.empty()) return of_credential_source(lookup, place);
  return wrong(lookup,
               "role_arn needs source_profile, credential_source or "
               "web_identity_token_file");
}

}  // namespace

Looked find_assumed_role(const Lookup& lookup) {
  const std::string arn = lookup.value("role_arn");
  if (arn.empty() || !lookup.value("web_identity_token_file").empty())
    return std::optional<FoundCredentials>{};
  if (!lookup.value("mfa_serial").empty())
    return wrong(lookup, "role " + arn +
                             " wants a code of mfa_serial, and warmroot has nobody to ask for one: "
                             "use a role without MFA, or `aws configure export-credentials`");
  TRY_ASSIGN(const Role role, read_role(lookup, arn, lookup.value("role_session_name")));
  Lookup way = lookup;
  way.chain.push_back(lookup.profile);
  TRY_ASSIGN(const auto source, find_source(way));
  TRY_ASSIGN(const StsClient sts, StsClient::of_settings(lookup.choices, role.region, lookup.from));
  auto keys = sts.assume_role(source->credentials, {role.arn, role.session_name,
                                                    lookup.value("external_id"), role.duration});
  if (!keys)
    return fail(std::move(keys).error().within(lookup.label() + ": assuming " + role.arn +
                                               " with the credentials of " + source->source));
  return std::optional<FoundCredentials>(
      as_found(std::move(*keys), "role " + role.arn + " of " + lookup.label()));
}

Looked find_web_identity(const Lookup& lookup) {
  const auto setting = [&lookup](const char* variable, const char* key) {
    const std::string value = lookup.environment ? lookup.from.value(variable) : std::string{};
    return value.empty() ? lookup.value(key) : value;
  };
  const std::string file = setting("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
  if (file.empty()) return std::optional<FoundCredentials>{};
  const std::string arn = setting("AWS_ROLE_ARN", "role_arn");
  if (arn.empty())
    return fail(ErrorKind::misconfigured, "the web identity token file " + file +
                                              " needs a role: set AWS_ROLE_ARN, or "
                                              "role_arn of " +
                                              lookup.label());
  TRY_ASSIGN(const Role role,
             read_role(lookup, arn, setting("AWS_ROLE_SESSION_NAME", "role_session_name")));
  // Read for every call: whatever writes it puts a new one there before the old one ends.
  auto text = lookup.from.read_file(file);
  if (!text) return fail(std::move(text).error().within("the web identity token"));
  while (!text->empty() && std::isspace(static_cast<unsigned char>(text->back())) != 0)
    text->pop_back();
  if (text->empty())
    return fail(ErrorKind::misconfigured, "the web identity token file " + file + " is empty");
  TRY_ASSIGN(const StsClient sts, StsClient::of_settings(lookup.choices, role.region, lookup.from));
  auto keys = sts.assume_role(AssumeRoleWithWebIdentity{role.arn, role.session_name,
                                                        Secret(std::move(*text)), role.duration});
  if (!keys)
    return fail(
        std::move(keys).error().within("assuming " + role.arn + " with the token in " + file));
  return std::optional<FoundCredentials>(
      as_found(std::move(*keys), "role " + role.arn + " by web identity"));
}

}  // namespace warmroot::aws
