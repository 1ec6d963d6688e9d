#include "bootstrap/base_accounts.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include "bootstrap/base/log.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/user_keys.hpp"

namespace warmroot::bootstrap {
namespace {

/// Its lines are those of the three files, each with a word before it, or those of an edit before.
constexpr std::size_t kMaxRecord = 8 * kMaxAccountFile;
constexpr std::size_t kMostProbes = 10;
/// lckpwdf(3) waits 15 s for the same lock.
constexpr int kLockAttempts = 150, kLockPauseMs = 100;

/// useradd and passwd lock this file with fcntl; released when the descriptor closes.
Result<UniqueFd> lock_accounts() {
  UniqueFd lock(::open("/etc/.pwd.lock", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return fail_errno("opening /etc/.pwd.lock");
  struct flock range {};
  range.l_type = F_WRLCK;
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    if (::fcntl(lock.get(), F_OFD_SETLK, &range) == 0) return lock;
    ::poll(nullptr, 0, kLockPauseMs);
  }
  return fail(ErrorKind::retry_later, "somebody else keeps /etc/passwd locked");
}

Result<AccountFiles> read_base_files() {
  AccountFiles files;
  TRY_ASSIGN(files.passwd, read_file("/etc/passwd", kMaxAccountFile));
  TRY_ASSIGN(files.group, read_file("/etc/group", kMaxAccountFile));
  files.shadow = read_file("/etc/shadow", kMaxAccountFile).value_or("");
  return files;
}

/// With the mode that it has (RHEL's shadow has 0000), or else this one.
Ok stage_changed(const std::string& path, const std::string& before, const std::string& after,
                 mode_t mode, std::vector<StagedFile>& staged) {
  if (before == after) return {};
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) mode = facts.st_mode & 07777;
  TRY_ASSIGN(StagedFile file, StagedFile::write(path, after, mode));
  staged.push_back(std::move(file));
  return {};
}

/// In the order in which they take their places.
Ok stage_base_files(const AccountFiles& before, const AccountFiles& after,
                    std::vector<StagedFile>& staged) {
  // passwd last: a user who exists can log in, and needs group and shadow by then.
  TRY(stage_changed("/etc/group", before.group, after.group, 0644, staged));
  if (!before.shadow.empty())
    TRY(stage_changed("/etc/shadow", before.shadow, after.shadow, 0640, staged));
  return stage_changed("/etc/passwd", before.passwd, after.passwd, 0644, staged);
}

Shells look_at_shells(const RootDirectory& volume, const std::set<std::string>& named) {
  Shells shells;
  for (const auto& shell : named)
    if (!volume.is_executable(shell))
      shells.missing_on_volume.insert(shell);
    else if (::access(shell.c_str(), X_OK) == 0)
      shells.on_both.insert(shell);
  return shells;
}

}  // namespace

Result<AccountEdit> import_accounts(const RootDirectory& volume) {
  AccountFiles from;
  // A volume without people of its own is fine: the base's are there.
  from.passwd = volume.read("etc/passwd", kMaxAccountFile).value_or("");
  from.group = volume.read("etc/group", kMaxAccountFile).value_or("");
  from.shadow = volume.read("etc/shadow", kMaxAccountFile).value_or("");
  TRY_ASSIGN(const UniqueFd lock, lock_accounts());
  TRY_ASSIGN(const AccountFiles base, read_base_files());
  AccountEdit edit = merge_accounts(base, from, look_at_shells(volume, shells_of(base, from)));
  const AccountEdit earlier = recorded_accounts();
  const auto keep = [](auto& now, const auto& before) {
    now.insert(now.end(), before.begin(), before.end());
  };
  keep(edit.passwd_changed, earlier.passwd_changed);
  keep(edit.passwd_added, earlier.passwd_added);
  keep(edit.group_added, earlier.group_added);
  keep(edit.shadow_added, earlier.shadow_added);
  const AccountFiles& result = edit.files;
  const std::string record = record_of(edit);
  if (std::max({result.passwd.size(), result.group.size(), result.shadow.size()}) >
          kMaxAccountFile ||
      record.size() > kMaxRecord)
    return fail(ErrorKind::refused,
                "the volume's people would make the base's account files larger than 4 MiB");
  if (!edit.changed()) return edit;
  // Before the change: what is recorded and not there is not missed when it is taken away.
  for (const char* directory : {"/var", "/var/lib"})
    if (::access(directory, F_OK) != 0) TRY(make_directory(directory, 0755));
  TRY(make_directory(kBaseState, 0700));
  std::vector<StagedFile> files;
  TRY_ASSIGN(StagedFile kept, StagedFile::write(kAccountRecord, record, 0600));
  files.push_back(std::move(kept));
  TRY(stage_base_files(base, edit.files, files));
  TRY(sync_all(files));
  TRY(files.front().take_place());
  TRY(sync_directory_of(kAccountRecord));
  for (StagedFile& file : std::span(files).subspan(1)) TRY(file.take_place());
  return edit;
}

Ok remove_imported_accounts(const AccountEdit& edit) {
  withdraw_user_keys();
  if (!edit.changed()) return {};
  TRY_ASSIGN(const UniqueFd lock, lock_accounts());
  TRY_ASSIGN(const AccountFiles present, read_base_files());
  std::vector<StagedFile> files;
  TRY(stage_base_files(present, revert_accounts(present, edit), files));
  TRY(sync_all(files));
  for (StagedFile& file : files) TRY(file.take_place());
  TRY(sync_directory_of("/etc/passwd"));
  ::unlink(kAccountRecord);
  return {};
}

AccountEdit recorded_accounts() {
  const auto record = read_file(kAccountRecord, kMaxRecord);
  if (!record && ::access(kAccountRecord, F_OK) == 0)
    log_event(LogLevel::warning, "the record of changed accounts cannot be read",
              {{"why", record.error().message()}});
  return parse_record(record.value_or(""));
}

std::vector<LoginTrial> probe_logins(const AccountEdit& edit) {
  std::vector<LoginTrial> logins;
  const auto add = [&](const User& user) {
    const auto same = [&](const LoginTrial& other) { return other.user.name == user.name; };
    if (logins.size() < kMostProbes && is_login_shell(user.shell) &&
        std::none_of(logins.begin(), logins.end(), same))
      logins.push_back({user, groups_of(user, edit.files.group)});
  };
  const auto present = parse_passwd(edit.files.passwd);
  // merge_accounts appends: the base's own people come before the volume's.
  const auto person = [](const User& user) { return user.uid >= 1000 && user.uid < 60000; };
  for (const User& user : present)
    if (user.name == "root") add(user);
  for (auto user = present.begin(); logins.empty() && user != present.end(); ++user)
    if (person(*user)) add(*user);
  for (const User& user : edit.session_users) add(user);
  for (const User& user : present)
    if (person(user)) add(user);
  return logins;
}

}  // namespace warmroot::bootstrap
