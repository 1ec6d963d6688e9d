#include "bootstrap/account_remarks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "bootstrap/account_groups.hpp"
#include "bootstrap/base/words.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::string_view kRuledGroups[] = {
    "sudo",    "wheel", "admin",  "docker", "podman",         "lxd", "incus", "kvm",
    "libvirt", "video", "render", "adm",    "systemd-journal"};

/// The first of them, and how many more there are.
std::string some_of(const std::vector<std::string>& people) {
  constexpr std::size_t kMostNamed = 3, kMostWords = 100;
  std::string names;
  for (std::size_t i = 0; i < std::min(people.size(), kMostNamed); ++i)
    names += (i > 0 ? ", " : "") + shortened(people[i], kMostWords);
  if (people.size() > kMostNamed)
    names += ", and " + std::to_string(people.size() - kMostNamed) + " more";
  return names;
}

}  // namespace

std::vector<std::string> groups_left_out(const AccountFiles& volume, const AccountEdit& edit) {
  std::map<std::string, std::set<std::uint32_t>> ids;  // that sessions have, by name
  for (const User& user : edit.session_users) ids[user.name].insert(user.gid);
  std::map<std::string, std::uint32_t> on_base;
  for (const Group& group : parse_groups(edit.files.group)) {
    on_base.emplace(group.name, group.gid);
    for (const std::string& member : group.members)
      if (const auto person = ids.find(member); person != ids.end())
        person->second.insert(group.gid);
  }
  std::map<std::string, std::vector<std::string>> lacking;
  for (const Group& group : parse_groups(volume.group)) {
    if (std::find(std::begin(kRuledGroups), std::end(kRuledGroups), group.name) ==
        std::end(kRuledGroups))
      continue;
    // The devices have the base's number.
    const auto theirs = is_device_group(group.name) ? on_base.find(group.name) : on_base.end();
    for (const std::string& member : group.members) {
      const auto person = ids.find(member);
      if (person == ids.end() ||
          (theirs != on_base.end() && person->second.count(theirs->second) > 0))
        continue;
      if (person->second.insert(group.gid).second) lacking[member].push_back(group.name);
    }
  }
  std::vector<std::string> people;
  for (const auto& [name, groups] : lacking)
    people.push_back(name + " (" + joined(groups, ", ") + ")");
  return people;
}

std::string remark_on_left_out(const std::vector<std::string>& left_out) {
  if (left_out.empty()) return {};
  return "of the volume's people some cannot log in, because the base's accounts count: " +
         some_of(left_out) + "; with session.entry = \"sshd\" the volume's own do";
}

std::string remark_on_groups(const std::vector<std::string>& without_groups) {
  if (without_groups.empty()) return {};
  return "of the volume's people some are here without groups that they have on it, because the "
         "base's accounts count: " +
         some_of(without_groups) + "; with session.entry = \"sshd\" the volume's own do";
}

}  // namespace warmroot::bootstrap
