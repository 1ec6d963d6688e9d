#include "bootstrap/account_limits.hpp"

#include <algorithm>
#include <iterator>

namespace warmroot::bootstrap {
namespace {

/// sshd, sudo, polkit and sockets look them up by name.
struct PrivilegedGroup {
  std::string_view name;
  const char* reason;
};
constexpr PrivilegedGroup kPrivilegedGroups[] = {
    {"warmroot-base", "its sessions land on the base"},
    {"root", "owns the base's files"},
    {"sudo", "may run everything as root"},
    {"wheel", "may run everything as root"},
    {"admin", "may run everything as root"},
    {"google-sudoers", "may run everything as root"},
    {"docker", "its socket is root"},
    {"podman", "its socket is root"},
    {"lxd", "its socket is root"},
    {"incus", "its socket is root"},
    {"incus-admin", "its socket is root"},
    {"libvirt", "its socket is root"},
    {"disk", "reads and writes every disk"},
    {"kmem", "reads the kernel's memory"},
    {"shadow", "reads the passwords"},
    {"adm", "reads the base's logs"},
    {"systemd-journal", "reads the base's logs"},
    {"staff", "writes /usr/local"},
    {"tty", "writes to everybody's terminal"},
    {"netdev", "changes the base's network"},
};

/// sshd reads keys in the home on the base: one in these places could lead into the mounted volume,
/// or be anybody's. Written otherwise ("//run", "/./tmp") it would be in such a place unseen.
bool fit_home(const std::string& path) {
  constexpr std::string_view kUnfit[] = {"/run", "/var/run", "/var/lock", "/proc",
                                         "/dev", "/sys",     "/tmp",      "/var/tmp"};
  for (const std::string_view part : {"//", "/./", "/../"})
    if (path.find(part) != std::string::npos) return false;
  if (path.ends_with("/.") || path.ends_with("/..")) return false;
  return std::none_of(std::begin(kUnfit), std::end(kUnfit), [&](std::string_view place) {
    return path == place || path.starts_with(std::string(place) + "/");
  });
}

/// Names that the base's privileged groups list, whether or not its passwd knows them.
std::set<std::string> privileged_names(const std::vector<Group>& groups) {
  std::set<std::string> names;
  for (const Group& group : groups)
    if (worth_on_base(group.name) != nullptr)
      names.insert(group.members.begin(), group.members.end());
  return names;
}

/// By the groups that the sudoers of usual systems name. Whoever is root in a session can be root
/// on the base.
std::set<std::string> who_may_be_root(const std::vector<Group>& groups) {
  std::set<std::string> names;
  for (const Group& group : groups)
    if (group.name == "sudo" || group.name == "wheel")
      names.insert(group.members.begin(), group.members.end());
  return names;
}

/// Why a user of the volume gets no name beside the one that their uid has on the base: in a
/// session `systemd-run --user` runs as that one, on the base, and sudo there goes by it.
std::string why_not_beside(const User& user, const TakenOnBase& taken) {
  if (taken.operators.count(user.uid) > 0) return ", whose sessions land there";
  if (taken.roots.count(user.name) == 0) return ", and is not in the volume's sudo or wheel";
  return {};
}

}  // namespace

const char* worth_on_base(std::string_view group_name) {
  for (const auto& group : kPrivilegedGroups)
    if (group.name == group_name) return group.reason;
  return nullptr;
}

std::set<std::string> base_members(const AccountFiles& base) {
  std::set<std::string> names;
  for (const Group& group : parse_groups(base.group)) {
    if (group.name != kPrivilegedGroups[0].name) continue;
    names.insert(group.members.begin(), group.members.end());
    for (const User& user : parse_passwd(base.passwd))
      if (user.gid == group.gid) names.insert(user.name);
  }
  return names;
}

std::map<std::uint32_t, std::string> names_by_gid(const std::vector<Group>& groups) {
  std::map<std::uint32_t, std::string> names;
  for (const Group& group : groups) names.emplace(group.gid, group.name);
  return names;
}

TakenOnBase taken_on_base(const AccountFiles& base, const AccountFiles& volume) {
  TakenOnBase taken;
  for (const User& user : parse_passwd(base.passwd)) taken.users.emplace(user.uid, user);
  const auto groups = parse_groups(base.group);
  taken.groups = names_by_gid(groups);
  const auto volume_groups = parse_groups(volume.group);
  taken.volume_groups = names_by_gid(volume_groups);
  taken.trusted = privileged_names(groups);
  const auto operators = base_members(base);
  for (const User& user : parse_passwd(base.passwd))
    if (operators.count(user.name) > 0) taken.operators.insert(user.uid);
  taken.roots = who_may_be_root(volume_groups);
  return taken;
}

std::string why_not_on_base(const User& user, const TakenOnBase& taken) {
  if (!fit_home(user.home)) return "has the home " + user.home;
  if (taken.trusted.count(user.name) > 0)
    return "is in a group of the base that is worth something there";
  const auto owner = taken.users.find(user.uid);
  const bool beside = owner != taken.users.end();
  if (beside) {
    const std::string reason = why_not_beside(user, taken);
    if (!reason.empty())
      return "has uid " + std::to_string(user.uid) + ", which is " + owner->second.name +
             " on the base" + reason;
  }
  const auto group = taken.groups.find(user.gid);
  if (group == taken.groups.end()) return {};
  // The owner's own group comes with the uid, whatever its name: "admin" of a Debian base.
  if (beside && user.gid == owner->second.gid && group->second == owner->second.name) return {};
  const std::string theirs =
      "has gid " + std::to_string(user.gid) + ", which is " + group->second + " on the base";
  if (const char* reason = worth_on_base(group->second)) return theirs + " (" + reason + ")";
  const auto same = taken.volume_groups.find(user.gid);
  const bool is_another = same == taken.volume_groups.end() || same->second != group->second;
  return user.gid != kUsersGroup && is_another ? theirs : std::string();
}

}  // namespace warmroot::bootstrap
