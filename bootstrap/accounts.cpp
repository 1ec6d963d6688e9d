#include "bootstrap/accounts.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "bootstrap/account_groups.hpp"
#include "bootstrap/account_limits.hpp"
#include "bootstrap/account_remarks.hpp"
#include "bootstrap/base/words.hpp"

namespace warmroot::bootstrap {
namespace {

/// Every system that is a root has the second.
constexpr const char* kFallbackShells[] = {"/bin/bash", "/bin/sh"};
constexpr std::size_t kMaxLineBytes = 4096;
/// With the blank behind it: what stands before a line in the record.
constexpr std::size_t kLongestWord = 7;
/// A line becomes longer where it is added: by "x" for no password, a shell for none, other ages.
constexpr std::size_t kMostGrowth = 64;
constexpr std::size_t kMaxEntries = 10000;
/// useradd's limit.
constexpr std::size_t kMaxNameBytes = 32;

/// Calls `visit` for every line that is not empty and not absurdly long.
template <typename Visit>
void each_line(std::string_view text, Visit visit, std::size_t longest = kMaxLineBytes) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.size() <= longest) visit(line);
  }
}

std::vector<std::string> split(std::string_view line, char separator) {
  std::vector<std::string> fields;
  while (true) {
    const std::size_t end = line.find(separator);
    fields.emplace_back(line.substr(0, end));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

std::optional<std::uint32_t> parse_id(const std::string& text) {
  std::uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 127; });
}

/// useradd's rule: [a-z_][a-z0-9_-]*[$]?, here with upper case and dots too, as directories of
/// people have them.
bool valid_name(const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return letter(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
           return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

bool absolute_path(const std::string& path) {
  return !path.empty() && path.front() == '/' && path.find("/../") == std::string::npos;
}

std::string append_lines(std::string text, const std::vector<std::string>& lines) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  for (const auto& line : lines) text += line + '\n';
  return text;
}

/// Removes one occurrence of each line.
std::string without_lines(std::string_view text, const std::vector<std::string>& lines) {
  std::multiset<std::string> left(lines.begin(), lines.end());
  std::string kept;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    const bool ended = end < text.size();
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const auto found = left.find(line); found != left.end()) {
      left.erase(found);
      continue;
    }
    kept += line;
    if (ended) kept += '\n';
  }
  return kept;
}

/// Replaces one line `from` by `to`, if it is there.
std::string with_line_changed(std::string text, const std::string& from, const std::string& to) {
  const std::string lines = "\n" + text + "\n";
  const std::size_t at = lines.find("\n" + from + "\n");
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// Gives the entry that `line` changed its shell back, where it still has the one it was given;
/// what somebody else changed of it (the finger name, the password field) stays.
std::string with_shell_back(const std::string& text, const ChangedLine& line) {
  if (std::string exact = with_line_changed(text, line.after, line.before); exact != text)
    return exact;
  const std::string lines = "\n" + text + "\n";
  const std::string name = "\n" + line.after.substr(0, line.after.find(':') + 1);
  const std::size_t at = lines.find(name);
  if (at == std::string::npos) return text;
  const std::string entry = lines.substr(at + 1, lines.find('\n', at + 1) - at - 1);
  const std::string shell = line.after.substr(line.after.rfind(':'));
  if (entry.substr(entry.rfind(':')) != shell) return text;
  return with_line_changed(
      text, entry, entry.substr(0, entry.rfind(':')) + line.before.substr(line.before.rfind(':')));
}

/// The first entry of each name, as getpwnam finds it.
template <typename Entry>
std::map<std::string, Entry> by_name(const std::vector<Entry>& entries) {
  std::map<std::string, Entry> found;
  for (const auto& entry : entries) found.emplace(entry.name, entry);
  return found;
}

struct ShadowEntry {
  std::string password;
  std::string expires;  ///< days since 1970; empty: never
};

/// Of a shadow file by name.
std::map<std::string, ShadowEntry> shadow_entries(std::string_view shadow) {
  std::map<std::string, ShadowEntry> entries;
  each_line(shadow, [&](std::string_view line) {
    const auto fields = split(line, ':');
    if (entries.size() >= kMaxEntries || fields.size() != 9 || !printable(fields[1])) return;
    const auto& expires = fields[7];
    const bool is_day =
        expires.size() <= 9 && expires.find_first_not_of("0123456789") == std::string::npos;
    entries.emplace(fields[0], ShadowEntry{std::string(fields[1]),
                                           is_day ? std::string(expires) : std::string()});
  });
  return entries;
}

std::string passwd_line(const User& user, const std::string& password = "x") {
  return user.name + ":" + password + ":" + std::to_string(user.uid) + ":" +
         std::to_string(user.gid) + ":" + user.gecos + ":" + user.home + ":" + user.shell;
}

bool is_imported(const User& user) {
  return is_person(user.uid) && (is_person(user.gid) || user.gid == kUsersGroup);
}

/// The base's shell, or where the volume lacks that, one that both have: the volume's own for the
/// user first.
std::string session_shell(const User& user, const User* on_volume, const Shells& shells) {
  if (shells.missing_on_volume.count(user.shell) == 0) return user.shell;
  std::vector<std::string> choices(std::begin(kFallbackShells), std::end(kFallbackShells));
  if (on_volume != nullptr && is_login_shell(on_volume->shell))
    choices.insert(choices.begin(), on_volume->shell);
  for (const auto& shell : choices)
    if (shells.on_both.count(shell) > 0) return shell;
  return user.shell;
}

/// What the base's entries of known people become. Root and people alone: nobody else logs in.
void change_known(const AccountFiles& base, const AccountFiles& volume, const Shells& shells,
                  AccountEdit& edit) {
  const auto on_volume = by_name(parse_passwd(volume.passwd));
  std::set<std::string> seen = base_members(base);
  each_line(base.passwd, [&](std::string_view line) {
    const auto user = parse_user(line);
    if (!user || !seen.insert(user->name).second) return;
    if ((user->uid != 0 && !is_person(user->uid)) || !is_login_shell(user->shell)) return;
    const auto other = on_volume.find(user->name);
    const User* theirs = other == on_volume.end() ? nullptr : &other->second;
    User after = *user;
    after.shell = session_shell(*user, theirs, shells);
    if (after.shell != user->shell)
      edit.notes.push_back("user " + user->name + " has the shell " + user->shell +
                           ", which the volume lacks; sessions use " + after.shell);
    if (after.shell != user->shell)
      edit.passwd_changed.push_back({std::string(line), passwd_line(after, after.password)});
  });
}

/// A user whom both know, as the base will have them. Only the same person gets the volume's keys:
/// a volume that calls uid 1000 "root" must not open the base's root.
void keep_known(const User& user, const User& known, AccountEdit& edit) {
  if (known.uid != user.uid)
    edit.notes.push_back("user " + user.name + " has uid " + std::to_string(known.uid) +
                         " on the base and " + std::to_string(user.uid) +
                         " on the volume; sessions use the base's");
  else if (is_login_shell(known.shell))
    edit.session_users.push_back(known);
}

void merge_users(const AccountFiles& base, const AccountFiles& volume, AccountEdit& edit) {
  const auto present = by_name(parse_passwd(edit.files.passwd));
  const auto base_shadow = shadow_entries(base.shadow);
  const auto shadow = shadow_entries(volume.shadow);
  const TakenOnBase taken = taken_on_base(base, volume);
  std::set<std::string> seen;
  for (const User& user : parse_passwd(volume.passwd)) {
    if (!is_imported(user) || !seen.insert(user.name).second) continue;
    if (const auto known = present.find(user.name); known != present.end()) {
      keep_known(user, known->second, edit);
      continue;
    }
    if (const std::string reason = why_not_on_base(user, taken); !reason.empty()) {
      edit.notes.push_back("user " + user.name + " of the volume " + reason + "; not added");
      if (is_login_shell(user.shell)) edit.left_out.push_back(user.name + " " + reason);
      continue;
    }
    edit.passwd_added.push_back(passwd_line(user));
    const auto owner = taken.users.find(user.uid);
    const bool beside = owner != taken.users.end();
    if (beside)
      edit.notes.push_back("user " + user.name + " of the volume has uid " +
                           std::to_string(user.uid) + " beside " + owner->second.name +
                           " of the base; keys alone let them in");
    if (base_shadow.count(user.name) == 0) {
      // Without a hash no password logs in: keys decide there, as on every cloud image. The age of
      // passwords is left out: changed in a session, they would be old on the base still. The
      // volume's keys are there only while sessions land in it; a hash would let in as the base's
      // user whenever they land on the base.
      const auto found = shadow.find(user.name);
      const ShadowEntry entry = found == shadow.end() ? ShadowEntry{} : found->second;
      const bool by_keys_alone = beside || entry.password.empty();
      edit.shadow_added.push_back(user.name + ":" + (by_keys_alone ? "!*" : entry.password) +
                                  ":19000:0:99999:7::" + entry.expires + ":");
    }
    if (is_login_shell(user.shell)) edit.session_users.push_back(user);
  }
}

void merge_groups(const AccountFiles& base, const AccountFiles& volume, AccountEdit& edit) {
  const auto present = by_name(parse_groups(base.group));
  const auto base_groups = names_by_gid(parse_groups(base.group));
  std::set<std::string> added;
  for (const Group& group : parse_groups(volume.group)) {
    if (!is_person(group.gid) || !added.insert(group.name).second) continue;
    if (const auto known = present.find(group.name); known != present.end()) {
      if (known->second.gid != group.gid)
        edit.notes.push_back("group " + group.name + " has gid " +
                             std::to_string(known->second.gid) + " on the base and " +
                             std::to_string(group.gid) + " on the volume");
      continue;
    }
    const char* reserved = worth_on_base(group.name);
    const auto owner = base_groups.find(group.gid);
    if (reserved != nullptr || owner != base_groups.end()) {
      edit.notes.push_back("group " + group.name + " of the volume not added: " +
                           (reserved != nullptr ? std::string(reserved)
                                                : "its gid is " + owner->second + " on the base"));
      continue;
    }
    edit.group_added.push_back(group.name + ":x:" + std::to_string(group.gid) + ":" +
                               joined(group.members, ","));
  }
}

}  // namespace

std::optional<User> parse_user(std::string_view line) {
  if (line.size() > kMaxLineBytes || !printable(line)) return std::nullopt;
  const auto fields = split(line, ':');
  if (fields.size() != 7 || !valid_name(fields[0])) return std::nullopt;
  const auto uid = parse_id(fields[2]), gid = parse_id(fields[3]);
  if (!uid || !gid || !absolute_path(fields[5])) return std::nullopt;
  if (!fields[6].empty() && !absolute_path(fields[6])) return std::nullopt;
  return User{fields[0], fields[1], fields[4], fields[5], fields[6].empty() ? "/bin/sh" : fields[6],
              *uid,      *gid};
}

std::optional<Group> parse_group(std::string_view line) {
  if (line.size() > kMaxLineBytes || !printable(line)) return std::nullopt;
  const auto fields = split(line, ':');
  if (fields.size() != 4 || !valid_name(fields[0])) return std::nullopt;
  const auto gid = parse_id(fields[2]);
  if (!gid) return std::nullopt;
  Group group{fields[0], fields[1], *gid, {}};
  for (const auto& member : split(fields[3], ','))
    if (valid_name(member)) group.members.push_back(member);
  return group;
}

std::vector<User> parse_passwd(std::string_view text) {
  std::vector<User> users;
  each_line(text, [&](std::string_view line) {
    if (auto user = parse_user(line); user && users.size() < kMaxEntries) users.push_back(*user);
  });
  return users;
}

std::vector<Group> parse_groups(std::string_view text) {
  std::vector<Group> groups;
  each_line(text, [&](std::string_view line) {
    if (auto group = parse_group(line); group && groups.size() < kMaxEntries)
      groups.push_back(*group);
  });
  return groups;
}

std::set<std::uint32_t> groups_of_one(const std::vector<User>& users,
                                      const std::vector<Group>& groups) {
  std::map<std::uint32_t, std::set<std::string>> people;
  for (const User& user : users) people[user.gid].insert(user.name);
  std::set<std::uint32_t> primary;
  for (const auto& [gid, names] : people) primary.insert(gid);
  for (const Group& group : groups)
    people[group.gid].insert(group.members.begin(), group.members.end());
  std::set<std::uint32_t> alone;
  for (const std::uint32_t gid : primary)
    if (people[gid].size() == 1) alone.insert(gid);
  return alone;
}

bool is_login_shell(const std::string& shell) {
  const std::string leaf = shell.substr(shell.rfind('/') + 1);
  return leaf != "nologin" && leaf != "false" && leaf != "true" && leaf != "sync";
}

std::set<std::string> shells_of(const AccountFiles& base, const AccountFiles& volume) {
  std::set<std::string> shells(std::begin(kFallbackShells), std::end(kFallbackShells));
  for (const auto* files : {&base, &volume})
    for (const User& user : parse_passwd(files->passwd))
      if (is_login_shell(user.shell)) shells.insert(user.shell);
  return shells;
}

AccountEdit merge_accounts(const AccountFiles& base, const AccountFiles& volume,
                           const Shells& shells) {
  AccountEdit edit;
  change_known(base, volume, shells, edit);
  edit.files.passwd = base.passwd;
  for (const auto& line : edit.passwd_changed)
    edit.files.passwd = with_line_changed(edit.files.passwd, line.before, line.after);
  merge_users(base, volume, edit);
  merge_groups(base, volume, edit);
  for (auto& line : groups_by_number(base, volume, edit))
    edit.group_added.push_back(std::move(line));
  edit.files = {append_lines(edit.files.passwd, edit.passwd_added),
                append_lines(base.group, edit.group_added),
                append_lines(base.shadow, edit.shadow_added)};
  edit.without_groups = groups_left_out(volume, edit);
  return edit;
}

AccountFiles revert_accounts(const AccountFiles& present, const AccountEdit& edit) {
  std::string passwd = without_lines(present.passwd, edit.passwd_added);
  for (const auto& line : edit.passwd_changed) passwd = with_shell_back(passwd, line);
  return {passwd, without_lines(present.group, edit.group_added),
          without_lines(present.shadow, edit.shadow_added)};
}

std::string record_of(const AccountEdit& edit) {
  std::string text;
  for (const auto& line : edit.passwd_changed)
    text += "before " + line.before + "\nafter " + line.after + '\n';
  for (const auto& line : edit.passwd_added) text += "passwd " + line + '\n';
  for (const auto& line : edit.group_added) text += "group " + line + '\n';
  for (const auto& line : edit.shadow_added) text += "shadow " + line + '\n';
  return text;
}

AccountEdit parse_record(std::string_view text) {
  AccountEdit edit;
  std::string before;
  each_line(
      text,
      [&](std::string_view line) {
        const std::size_t blank = std::min(line.find(' '), line.size() - 1);
        const std::string_view kind = line.substr(0, blank);
        const std::string added(line.substr(blank + 1));
        if (kind == "before") before = added;
        if (kind == "after" && !before.empty())
          edit.passwd_changed.push_back({std::exchange(before, {}), added});
        if (kind == "passwd") edit.passwd_added.push_back(added);
        if (kind == "group") edit.group_added.push_back(added);
        if (kind == "shadow") edit.shadow_added.push_back(added);
      },
      kMaxLineBytes + kLongestWord + kMostGrowth);
  return edit;
}

std::vector<std::uint32_t> groups_of(const User& user, std::string_view group_text) {
  std::vector<std::uint32_t> ids{user.gid};
  for (const auto& group : parse_groups(group_text))
    if (group.gid != user.gid &&
        std::find(group.members.begin(), group.members.end(), user.name) != group.members.end())
      ids.push_back(group.gid);
  return ids;
}

}  // namespace warmroot::bootstrap
