// See profile.hpp.
#include "manager/aws/profile.hpp"

#include <set>

namespace warmroot::aws {
namespace {

Result<AwsFile> load(const Surroundings& from, const char* path_variable, const char* name) {
  const std::string home = from.value("HOME");
  AwsFile file{from.value(path_variable), {}};
  if (file.path.empty()) file.path = home + "/.aws/" + name;
  if (file.path.starts_with("~/")) file.path.replace(0, 1, home);
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

}  // namespace

const AwsSection* AwsFile::section(const std::string& name) const {
  const auto found = sections.find(name);
  return found == sections.end() ? nullptr : &found->second;
}

const AwsSection* AwsFiles::in_credentials(const std::string& profile) const {
  return credentials.section(profile);
}

const AwsSection* AwsFiles::in_config(const std::string& profile) const {
  if (const AwsSection* found = config.section("profile " + profile)) return found;
  return profile == "default" ? config.section(profile) : nullptr;
}

bool AwsFiles::has_profile(const std::string& profile) const {
  return in_credentials(profile) != nullptr || in_config(profile) != nullptr;
}

std::string AwsFiles::value(const std::string& profile, const std::string& key) const {
  for (const AwsSection* section : {in_credentials(profile), in_config(profile)}) {
    if (section == nullptr) continue;
    const auto found = section->find(key);
    if (found != section->end()) return found->second;
  }
  return {};
}

std::string AwsFiles::no_such_profile(const std::string& profile) const {
  constexpr std::string_view kProfile = "profile ";
  std::set<std::string> names;
  for (const auto& [name, section] : credentials.sections) names.insert(name);
  for (const auto& [name, section] : config.sections) {
    if (name.starts_with(kProfile)) names.insert(name.substr(kProfile.size()));
    if (name == "default") names.insert(name);
  }
  std::string text = "neither " + credentials.path + " nor " + config.path + " has a profile " +
                     profile + "; there ";
  if (names.empty()) return text + "is none";
  text += names.size() == 1 ? "is " : "are ";
  std::string separator;
  for (const std::string& name : names) {
    text += separator + name;
    separator = ", ";
  }
  return text;
}

Result<AwsFiles> load_aws_files(const Surroundings& from) {
  AwsFiles files;
  TRY_ASSIGN(files.credentials, load(from, "AWS_SHARED_CREDENTIALS_FILE", "credentials"));
  TRY_ASSIGN(files.config, load(from, "AWS_CONFIG_FILE", "config"));
  return files;
}

ProfileChoice choose_profile(const AwsChoices& choices, const Surroundings& from) {
  ProfileChoice choice{choices.profile, true};
  for (const char* name : {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"})
    if (choice.name.empty()) choice.name = from.value(name);
  if (choice.name.empty()) choice = {"default", false};
  return choice;
}

Result<ChosenProfile> load_profile(const AwsChoices& choices, const Surroundings& from) {
  ChosenProfile chosen;
  TRY_ASSIGN(chosen.files, load_aws_files(from));
  chosen.choice = choose_profile(choices, from);
  if (chosen.choice.named && !chosen.files.has_profile(chosen.choice.name))
    return fail(ErrorKind::misconfigured, chosen.files.no_such_profile(chosen.choice.name) +
                                              ": correct --profile or AWS_PROFILE");
  return chosen;
}

}  // namespace warmroot::aws
