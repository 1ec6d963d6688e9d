// sshd looks users, shells, homes and groups up on the base. People whom only the volume knows get
// base entries with the volume's numeric ids: uid 1000 to 59999, never a system account, never uid
// 0. Who differs between the two is changed on the base for as long. Pure text in, text out; both
// files come from machines we do not trust to be well-formed.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace warmroot::bootstrap {

struct User {
  std::string name, password, gecos, home, shell;
  std::uint32_t uid = 0, gid = 0;
};

/// Somebody whose login is tried.
struct LoginTrial {
  User user;
  std::vector<std::uint32_t> groups;
};

struct Group {
  std::string name, password;
  std::uint32_t gid = 0;
  std::vector<std::string> members;
};

/// More of one account file is not read.
inline constexpr std::size_t kMaxAccountFile = 4 * 1024 * 1024;

/// passwd(5), group(5) and shadow(5) of one system.
struct AccountFiles {
  std::string passwd, group, shadow;
};

/// A passwd line of the base that reads otherwise while the volume is there.
struct ChangedLine {
  std::string before, after;
};

/// What is known of the shells that passwd files name.
struct Shells {
  std::set<std::string> missing_on_volume;
  std::set<std::string> on_both;
};

struct AccountEdit {
  AccountFiles files;  ///< the base's files after the edit
  std::vector<ChangedLine> passwd_changed;
  std::vector<std::string> passwd_added;  ///< whole lines, for revert_accounts
  std::vector<std::string> group_added;
  std::vector<std::string> shadow_added;
  std::vector<User>
      session_users;  ///< the volume's people who may log in; theirs are the volume's keys
  std::vector<std::string> notes;  ///< one sentence each, about what was left alone
  /// People who may log in on the volume and are unknown to the base: "eve has gid 1000, which is
  /// admin on the base".
  std::vector<std::string> left_out;
  /// Who of session_users is not in groups of the volume: "ada (sudo, docker)".
  std::vector<std::string> without_groups;
  bool changed() const {
    return !passwd_changed.empty() || !passwd_added.empty() || !group_added.empty() ||
           !shadow_added.empty();
  }
};

/// One passwd line; nullopt for comments, NIS entries, bad ids, names that shells or paths could
/// misread, and fields with control characters.
std::optional<User> parse_user(std::string_view line);
std::optional<Group> parse_group(std::string_view line);
/// All valid lines, at most 10000.
std::vector<User> parse_passwd(std::string_view text);
std::vector<Group> parse_groups(std::string_view text);

/// Groups that one user alone is in: as the primary one, and nobody else as a member.
std::set<std::uint32_t> groups_of_one(const std::vector<User>& users,
                                      const std::vector<Group>& groups);

/// True for shells that let people in.
bool is_login_shell(const std::string& shell);

/// Shells that passwd files name and that sessions could fall back to.
std::set<std::string> shells_of(const AccountFiles& base, const AccountFiles& volume);

/// Adds what the base lacks, except groups that are worth something there (sudo, docker, ...) or
/// the system's, of which people get the number alone, where that is safe (groups_by_number),
/// names that such a group lists, whoever has an id that is somebody else's on the base (of the
/// group, another group's), and homes in places like /run: those are notes. Who may be root on the
/// volume has a uid of the base's all the same, behind its owner, whom getpwuid finds, and without
/// a password. Of the base's own entries the shell alone is changed, for as long as the volume is
/// there: one that the volume lacks becomes one that both have. Those of warmroot-base's members
/// stay. Applying it to its own result changes nothing.
AccountEdit merge_accounts(const AccountFiles& base, const AccountFiles& volume,
                           const Shells& shells = {});

/// Takes exactly the added lines out of the present files and gives the changed ones their shell
/// back, whatever else has changed since; a shell that somebody else chose meanwhile stays.
AccountFiles revert_accounts(const AccountFiles& present, const AccountEdit& edit);

/// The added and changed lines as text, kept in /run so that another process can revert them; and
/// back. Rubbish is left out.
std::string record_of(const AccountEdit& edit);
AccountEdit parse_record(std::string_view text);

/// Ids that a login gets from these files: the user's groups, primary first.
std::vector<std::uint32_t> groups_of(const User& user, std::string_view group_text);

}  // namespace warmroot::bootstrap
