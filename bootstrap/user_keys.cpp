#include "bootstrap/user_keys.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "bootstrap/base/log.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

/// A thousand keys of the longest kind.
constexpr std::size_t kMaxKeysFile = 1024 * 1024;
constexpr std::size_t kMostLooks = 200;

std::string path_on_base(const User& user) {
  return std::string(kUserKeysDirectory) + "/" + user.name;
}

std::string path_in_volume(const User& user) {
  return user.home.substr(1) + "/.ssh/authorized_keys";
}

/// Another text when it is another directory, or others can write it.
std::string state_of_directory(const RootDirectory& volume, const std::string& path) {
  const auto found = volume.open_inside(path, O_PATH | O_DIRECTORY);
  struct stat facts {};
  if (!found || ::fstat(found->get(), &facts) != 0) return "none ";
  return std::to_string(facts.st_dev) + " " + std::to_string(facts.st_ino) + " " +
         std::to_string(facts.st_uid) + " " + std::to_string(facts.st_gid) + " " +
         std::to_string(facts.st_mode) + " ";
}

/// Another text when it is another file, or has been written to, or may count no more, or again.
std::string state_of(const RootDirectory& volume, const User& user) {
  const auto found = volume.open_inside(path_in_volume(user), O_PATH);
  struct stat facts {};
  if (!found || ::fstat(found->get(), &facts) != 0) return "none";
  std::string text =
      state_of_directory(volume, user.home) + state_of_directory(volume, user.home + "/.ssh");
  for (const auto part :
       {static_cast<long long>(facts.st_dev), static_cast<long long>(facts.st_ino),
        static_cast<long long>(facts.st_size), static_cast<long long>(facts.st_uid),
        static_cast<long long>(facts.st_mode), static_cast<long long>(facts.st_mtim.tv_sec),
        static_cast<long long>(facts.st_mtim.tv_nsec), static_cast<long long>(facts.st_ctim.tv_sec),
        static_cast<long long>(facts.st_ctim.tv_nsec)})
    text += std::to_string(part) + " ";
  return text;
}

/// Of the disk or the kernel, not of the file.
bool passes(const Error& error) {
  return error.kind == ErrorKind::retry_later || error.code == "EIO" || error.code == "EMFILE" ||
         error.code == "ENFILE" || error.code == "ENOMEM";
}

std::set<std::uint32_t> groups_of_one_in(const RootDirectory& volume) {
  const auto text = [&volume](const char* file) {
    return volume.read(file, kMaxAccountFile).value_or("");
  };
  return groups_of_one(parse_passwd(text("etc/passwd")), parse_groups(text("etc/group")));
}

/// Of people whom a process that was killed has let in and who are nobody's by now.
void withdraw_of_others(const std::vector<User>& users) {
  std::set<std::string> paths;
  for (const User& user : users) paths.insert(path_on_base(user));
  for (const auto& name : list_directory(kUserKeysDirectory)) {
    const std::string path = std::string(kUserKeysDirectory) + "/" + name;
    if (!paths.contains(path)) ::unlink(path.c_str());
  }
}

}  // namespace

Ok UserKeys::publish(const RootDirectory& volume, const std::vector<User>& users,
                     const std::string& launch_key, const Cancelled& cancelled) {
  TRY(make_directory(kUserKeysDirectory, 0755));
  launch_key_ = launch_key;
  people_.clear();
  {
    const std::lock_guard lock(mutex_);
    // A release, which has it cancelled before it withdraws, may have been faster.
    if (cancelled && cancelled()) return {};
    open_ = true;
  }
  // The key that everybody counts on first: of thousands of people on a cold volume each takes
  // some first touches.
  for (const User& user : users) {
    people_.push_back({user, {}});
    const std::string path = path_on_base(user);
    const std::lock_guard lock(mutex_);
    if (!open_) return {};
    // Those that a process which was killed has let in stay in.
    if (!launch_key.empty() && ::access(path.c_str(), F_OK) != 0)
      TRY(write_file_atomic(path, launch_key + '\n', 0644));
  }
  withdraw_of_others(users);
  const auto alone = groups_of_one_in(volume);
  for (Person& person : people_) {
    if (cancelled && cancelled()) return {};
    TRY(write(volume, person, alone));
  }
  return {};
}

/// sshd reads them on the base, from a file of root's that the user cannot change.
Ok UserKeys::write(const RootDirectory& volume, Person& person,
                   const std::set<std::uint32_t>& groups_of_one) {
  person.seen = state_of(volume, person.user);
  const User& user = person.user;
  const auto own = volume.read_as(path_in_volume(user), user.home, kMaxKeysFile,
                                  {user.uid, user.gid, groups_of_one.contains(user.gid)});
  if (!own && own.error().kind != ErrorKind::gone)
    log_event(LogLevel::warning, "keys that do not count",
              {{"user", person.user.name}, {"why", own.error().message()}});
  // A disk or a kernel that cannot just now says nothing of the keys: they stay, and are looked at
  // again.
  if (!own && passes(own.error())) {
    person.seen.clear();
    return {};
  }
  std::string keys = own.value_or("");
  if (!keys.empty() && keys.back() != '\n') keys += '\n';
  if (!launch_key_.empty()) keys += launch_key_ + '\n';
  const std::lock_guard lock(mutex_);
  if (!open_) return {};
  if (!keys.empty()) return write_file_atomic(path_on_base(person.user), keys, 0644);
  ::unlink(path_on_base(person.user).c_str());
  return {};
}

void UserKeys::follow(const RootDirectory& volume, const Cancelled& cancelled) {
  std::optional<std::set<std::uint32_t>> alone;  // asked for when something has changed
  for (std::size_t looks = std::min(people_.size(), kMostLooks); looks > 0; --looks) {
    if (cancelled && cancelled()) return;
    Person& person = people_[next_ = (next_ + 1) % people_.size()];
    if (state_of(volume, person.user) == person.seen) continue;
    if (!alone) alone = groups_of_one_in(volume);
    if (const Ok written = write(volume, person, *alone); !written)
      log_event(LogLevel::warning, "keys that changed cannot be written",
                {{"user", person.user.name}, {"why", written.error().message()}});
  }
}

void UserKeys::withdraw() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  withdraw_user_keys();
}

void withdraw_user_keys() {
  for (const auto& name : list_directory(kUserKeysDirectory))
    ::unlink((std::string(kUserKeysDirectory) + "/" + name).c_str());
}

}  // namespace warmroot::bootstrap
