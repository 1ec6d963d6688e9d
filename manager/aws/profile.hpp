// The two files of the AWS CLI and the profiles in them. Region, endpoint and credentials are all
// looked up here; what a setting means is the business of whoever asks for it.
#pragma once

#include <string>
#include <vector>

#include "manager/aws/aws_ini.hpp"
#include "manager/aws/surroundings.hpp"

namespace warmroot::aws {

/// What the operator said on the command line or in the spec; empty: not said.
struct AwsChoices {
  std::string profile;
  std::string region;
  std::string endpoint_url;
};

/// One file: its path as the operator sees it and what is in it.
struct AwsFile {
  std::string path;
  AwsIni sections;

  /// nullptr when there is none.
  const AwsSection* section(const std::string& name) const;
};

/// Both files of the AWS CLI.
struct AwsFiles {
  AwsFile credentials;
  AwsFile config;

  bool has_profile(const std::string& profile) const;
  /// nullptr where the file has no such profile.
  const AwsSection* in_credentials(const std::string& profile) const;
  const AwsSection* in_config(const std::string& profile) const;
  /// The profile's setting, the credentials file's before the config file's; empty: not set.
  std::string value(const std::string& profile, const std::string& key) const;
  /// "neither A nor B has a profile X; there are Y and Z"
  std::string no_such_profile(const std::string& profile) const;
};

/// Reads both. A file that does not exist is empty. Errors: misconfigured for a broken one.
Result<AwsFiles> load_aws_files(const Surroundings& from);

/// The chosen profile: explicit > AWS_PROFILE > AWS_DEFAULT_PROFILE > default.
struct ProfileChoice {
  std::string name;
  bool named = false;  ///< by the command line or the environment, not the default
};
ProfileChoice choose_profile(const AwsChoices& choices, const Surroundings& from);

/// Files and profile together. Errors: misconfigured for a profile that is named but in no file.
struct ChosenProfile {
  AwsFiles files;
  ProfileChoice choice;

  std::string value(const std::string& key) const { return files.value(choice.name, key); }
};
Result<ChosenProfile> load_profile(const AwsChoices& choices, const Surroundings& from);

}  // namespace warmroot::aws
