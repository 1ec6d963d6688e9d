#include "bootstrap/account_groups.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>

#include "bootstrap/account_limits.hpp"
#include "bootstrap/base/words.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::string_view kDeviceGroups[] = {"video", "render", "kvm"};

bool is_system_gid(std::uint32_t gid) {
  return gid > 0 && gid < kFirstPersonId;
}

/// What the lines of a file have in this field, counted from 0: also lines that parse_group leaves
/// out, whose numbers are somebody's all the same. Of a number without the zeros before it.
void add_fields(std::string_view text, int field, std::set<std::string>& found) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    for (int i = 0; i < field && !line.empty(); ++i)
      line.remove_prefix(std::min(line.find(':'), line.size() - 1) + 1);
    const std::string_view text_of_field = line.substr(0, line.find(':'));
    found.emplace(
        text_of_field.substr(std::min(text_of_field.find_first_not_of('0'), text_of_field.size())));
  }
}

const Group* first_named(const std::vector<Group>& groups, std::string_view name) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& group) { return group.name == name; });
  return found == groups.end() ? nullptr : &*found;
}

/// Whether the number, where it is anything there, is that of this name.
bool means_only(const std::map<std::uint32_t, std::string>& names, std::uint32_t gid,
                std::string_view name) {
  const auto found = names.find(gid);
  return found == names.end() || found->second == name;
}

class NumberLines {
 public:
  NumberLines(const AccountFiles& base, const AccountEdit& edit) {
    add_fields(base.group, 0, names_);
    for (const auto& line : edit.group_added) add_fields(line, 0, names_);
    for (const User& user : edit.session_users) people_.insert(user.name);
  }

  /// Gives the number to those members who have sessions, and are not in the base's group.
  void add(std::uint32_t gid, const Group& group, const std::vector<std::string>& there) {
    std::set<std::string> known(there.begin(), there.end());
    std::vector<std::string> members;
    for (const auto& member : group.members)
      if (people_.count(member) > 0 && known.insert(member).second) members.push_back(member);
    const std::string number = std::to_string(gid);
    const std::string name = "warmroot-g" + number;
    const std::string line = name + ":x:" + number + ":" + joined(members, ",");
    // One that is too long to be read again would not be found there the next time.
    if (!members.empty() && names_.count(name) == 0 && parse_group(line)) lines_.push_back(line);
  }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::set<std::string> names_, people_;
  std::vector<std::string> lines_;
};

}  // namespace

bool is_device_group(std::string_view name) {
  return std::find(std::begin(kDeviceGroups), std::end(kDeviceGroups), name) !=
         std::end(kDeviceGroups);
}

std::vector<std::string> groups_by_number(const AccountFiles& base, const AccountFiles& volume,
                                          const AccountEdit& edit) {
  const auto on_base = parse_groups(base.group), on_volume = parse_groups(volume.group);
  const auto base_names = names_by_gid(on_base), volume_names = names_by_gid(on_volume);
  std::set<std::string> taken;
  add_fields(base.group, 2, taken);
  add_fields(base.passwd, 3, taken);
  for (const auto& line : edit.group_added) add_fields(line, 2, taken);
  NumberLines numbers(base, edit);
  for (const Group& group : on_volume) {
    const bool by_number =
        is_system_gid(group.gid) || (is_person(group.gid) && worth_on_base(group.name) != nullptr);
    if (by_number && taken.insert(std::to_string(group.gid)).second)
      numbers.add(group.gid, group, {});
  }
  for (const std::string_view name : kDeviceGroups) {
    const Group* theirs = first_named(on_base, name);
    const Group* group = first_named(on_volume, name);
    if (theirs != nullptr && group != nullptr && is_system_gid(theirs->gid) &&
        means_only(base_names, theirs->gid, name) && means_only(volume_names, theirs->gid, name))
      numbers.add(theirs->gid, *group, theirs->members);
  }
  return numbers.lines();
}

}  // namespace warmroot::bootstrap
