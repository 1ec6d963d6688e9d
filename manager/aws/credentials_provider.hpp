// The interface of all places where credentials may lie. Each place is one entry; credentials.cpp
// puts them in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manager/aws/credentials.hpp"
#include "manager/aws/credentials_json.hpp"

namespace warmroot::aws {

/// What a place is asked with.
struct Lookup {
  const Surroundings& from;
  const AwsFiles& files;
  AwsChoices choices;        ///< for Region and endpoints
  std::string profile;       ///< whose settings count
  bool environment = false;  ///< the environment's own credentials count: no profile was asked for
  std::vector<std::string> chain;    ///< profiles whose roles are being assumed on the way here
  std::vector<std::string>& looked;  ///< places without credentials, for the error at the end

  std::string value(const std::string& key) const { return files.value(profile, key); }
  std::string label() const { return "profile " + profile; }
  /// Files and profile as the resolvers of settings want them.
  ChosenProfile chosen() const { return {files, {profile, true}}; }
};

/// nullopt: not set up here, the next place is asked. An error is final.
using Looked = Result<std::optional<FoundCredentials>>;

struct Provider {
  std::string_view name;
  Looked (*find)(const Lookup&);
};

Looked find_environment(const Lookup& lookup);
Looked find_assumed_role(const Lookup& lookup);
Looked find_web_identity(const Lookup& lookup);
Looked find_sso(const Lookup& lookup);
Looked find_shared_file(const Lookup& lookup);
Looked find_login(const Lookup& lookup);
Looked find_process(const Lookup& lookup);
Looked find_config_file(const Lookup& lookup);
Looked find_container(const Lookup& lookup);
Looked find_instance(const Lookup& lookup);

/// All places of a profile but for the role it assumes, in order. Returns nullopt where it has
/// none.
Looked find_of_profile(const Lookup& lookup);

/// The keys as found credentials.
FoundCredentials as_found(TemporaryCredentials keys, std::string source);

}  // namespace warmroot::aws
