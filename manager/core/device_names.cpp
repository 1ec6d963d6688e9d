// The order of names; see the header for why.
#include "manager/core/device_names.hpp"

#include <vector>

namespace warmroot::core {

namespace {

void add_range(std::vector<std::string>& names, std::string_view prefix, char first, char last) {
  for (char letter = first; letter <= last; ++letter) names.push_back(std::string(prefix) + letter);
}

const std::vector<std::string>& candidates() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    add_range(made, "/dev/sd", 'f', 'p');
    add_range(made, "/dev/xvdb", 'a', 'z');
    add_range(made, "/dev/xvda", 'a', 'z');
    return made;
  }();
  return names;
}

}  // namespace

std::string_view device_suffix(std::string_view name) {
  for (const std::string_view prefix : {"/dev/", "xvd", "sd"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return name;
}

std::optional<std::string> next_device_name(const std::set<std::string>& used) {
  std::set<std::string_view> taken;
  for (const auto& name : used) taken.insert(device_suffix(name));
  for (const auto& name : candidates())
    if (!taken.contains(device_suffix(name))) return name;
  return std::nullopt;
}

}  // namespace warmroot::core
