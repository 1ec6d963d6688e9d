// The role of the instance that the manager runs on.
#include "manager/aws/credentials_provider.hpp"
#include "manager/aws/instance_metadata.hpp"

namespace warmroot::aws {
namespace {

constexpr const char* kRoles = "/latest/meta-data/iam/security-credentials/";

/// The first line: there is one role at most.
std::string role_in(const std::string& text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

bool can_be_role(const std::string& role) {
  return !role.empty() && role.find_first_of("/?# \t") == std::string::npos;
}

}  // namespace

Looked find_instance(const Lookup& lookup) {
  TRY_ASSIGN(const auto metadata, InstanceMetadata::of_settings(lookup.chosen(), lookup.from));
  if (!metadata) {
    lookup.looked.emplace_back("no instance (AWS_EC2_METADATA_DISABLED is set)");
    return std::optional<FoundCredentials>{};
  }
  const auto roles = metadata->get(kRoles);
  if (!roles) {
    // A host outside of EC2 looks the same as a service that drops packets.
    lookup.looked.push_back(roles.error().kind == ErrorKind::gone
                                ? "the instance (it has no role)"
                                : "the instance (" + roles.error().context + ")");
    return std::optional<FoundCredentials>{};
  }
  const std::string role = role_in(*roles);
  if (!can_be_role(role)) {
    lookup.looked.emplace_back("the instance (it has no role)");
    return std::optional<FoundCredentials>{};
  }
  const std::string source = "the instance's role " + role;
  auto text = metadata->get(kRoles + role);
  if (!text) {
    // Right after boot the role is named before its keys are there.
    if (text.error().kind == ErrorKind::gone) text.error().kind = ErrorKind::retry_later;
    return fail(std::move(text).error().within(source));
  }
  auto keys = parse_metadata_credentials(*text);
  if (!keys) {
    keys.error().kind = ErrorKind::retry_later;
    return fail(std::move(keys).error().within(source));
  }
  FoundCredentials found = as_found(std::move(*keys), source);
  found.outlive_expiry = true;
  return std::optional<FoundCredentials>(std::move(found));
}

}  // namespace warmroot::aws
