#include "bootstrap/own_sshd_reads.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/host_key_document.hpp"
#include "bootstrap/own_sshd_files.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMostReadFiles = 1000, kMostReadNames = 2000;
constexpr std::size_t kMostReadText = 2 * kMaxAccountFile;
constexpr std::size_t kMostShownPath = 200;

constexpr const char* kReadAtLogin[] = {
    "/etc/passwd",      "/etc/group",          "/etc/shadow",     "/etc/nsswitch.conf",
    "/etc/host.conf",   "/etc/hosts.allow",    "/etc/hosts.deny", "/etc/nologin",
    "/etc/environment", "/etc/default/locale", "/etc/login.defs", "/etc/localtime",
    "/etc/motd",        "/etc/pam.conf",       "/etc/ssh/moduli", "/etc/ssh/sshrc"};
/// Of PAM's modules: limits.conf, limits.d/*.conf, pam_env.conf, access.conf, ...
constexpr const char* kReadByModules[] = {"/etc/security/*.conf", "/etc/security/*.d/*.conf"};
constexpr char kOwnSshdConfig[] = "/etc/ssh/sshd_config";
/// PAM reads the second for each service.
constexpr const char* kPamServices[] = {"sshd", "other"};

enum class FileSyntax { any, sshd_config, pam };

/// For a sentence.
std::string path_in_words(const std::string& path) {
  return shortened(without_controls(path), kMostShownPath) + " in the volume";
}

/// What the kernel makes up while it is read may keep its reader waiting, too (/proc/kmsg). What
/// is mounted in the volume by then is the base's, the kernel's, or a file system of its disk.
bool is_on_file_system_of_files(int fd, const RootDirectory& root) {
  constexpr long kOfFiles[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                               MSDOS_SUPER_MAGIC};
  struct statfs file {};
  struct statfs top {};
  if (::fstatfs(fd, &file) != 0 || ::fstatfs(root.fd(), &top) != 0) return false;
  return file.f_type == top.f_type ||
         std::find(std::begin(kOfFiles), std::end(kOfFiles), file.f_type) != std::end(kOfFiles);
}

class LoginReads {
 public:
  explicit LoginReads(const RootDirectory& root) : root_(root) {}

  /// It is among the files that are looked at, once. A directory is read as one that is empty.
  Ok name(std::string path, FileSyntax syntax, bool may_be_directory = false) {
    if (!seen_.emplace(path, syntax).second) return {};
    if (named_.size() == kMostReadFiles)
      return fail(ErrorKind::refused, "the volume's sshd would read more than " +
                                          std::to_string(kMostReadFiles) + " files at a login");
    named_.push_back({std::move(path), syntax, may_be_directory});
    return {};
  }

  /// The same of all that is there for the pattern.
  Ok name_all(std::string_view pattern, FileSyntax syntax) {
    std::vector<std::string> paths(1);
    while (!pattern.empty()) {
      const std::string_view part = pattern.substr(0, pattern.find('/'));
      pattern.remove_prefix(std::min(part.size() + 1, pattern.size()));
      if (part.empty()) continue;
      if (is_glob(part)) {
        TRY_ASSIGN(paths, matches(paths, part));
      } else {
        for (std::string& path : paths) path.append("/").append(part);
      }
    }
    for (std::string& path : paths) TRY(name(std::move(path), syntax, true));
    return {};
  }

  Ok name_all_of_sshd_config(std::string_view text) {
    NamedFiles files = files_of_sshd_config(text);
    for (std::string& path : files.read) TRY(name(std::move(path), FileSyntax::any));
    for (const std::string& path : files.included) TRY(name_all(path, FileSyntax::sshd_config));
    return {};
  }

  /// What these name is named meanwhile.
  Ok look() {
    for (std::size_t next = 0; next < named_.size(); ++next) {
      const Named file = named_[next];
      TRY_ASSIGN(const bool is_there, is_regular(file));
      if (!is_there || file.syntax == FileSyntax::any) continue;
      const auto text = root_.read(file.path, kMaxAccountFile);
      if (!text) return cannot_look(file.path, text.error());
      text_bytes_ += text->size();
      if (text_bytes_ > kMostReadText)
        return fail(ErrorKind::refused,
                    "the configuration of the volume's sshd is longer than 8 MiB");
      if (file.syntax == FileSyntax::sshd_config) TRY(name_all_of_sshd_config(*text));
      if (file.syntax == FileSyntax::pam)
        for (std::string& path : files_of_pam(*text)) TRY(name(std::move(path), FileSyntax::pam));
    }
    return {};
  }

 private:
  struct Named {
    std::string path;
    FileSyntax syntax;
    bool may_be_directory;
  };

  /// Nobody waits where a path ends like this. A loop of links may be none to sshd: here those of
  /// /proc are not followed.
  static bool is_nothing(const Error& error) {
    return error.kind == ErrorKind::gone || error.code == "ENOTDIR";
  }
  static tl::unexpected<Error> cannot_look(const std::string& path, const Error& error) {
    return fail(error.kind, path_in_words(path) + " cannot be looked at", error.code);
  }

  /// False where there is nothing to read.
  Result<bool> is_regular(const Named& file) const {
    const auto found = root_.open_inside(file.path, O_PATH);
    if (!found && is_nothing(found.error())) return false;
    if (!found) return cannot_look(file.path, found.error());
    struct stat facts {};
    if (::fstat(found->get(), &facts) != 0) return fail_errno("stat of a file in the volume");
    const bool is_null = S_ISCHR(facts.st_mode) && facts.st_rdev == makedev(1, 3);
    if (is_null || (file.may_be_directory && S_ISDIR(facts.st_mode))) return false;
    if (!S_ISREG(facts.st_mode) || !is_on_file_system_of_files(found->get(), root_))
      return fail(ErrorKind::refused, path_in_words(file.path) + " is no regular file");
    if (facts.st_size > static_cast<off_t>(kMaxAccountFile))
      return fail(ErrorKind::refused, path_in_words(file.path) + " is longer than 4 MiB");
    return true;
  }

  /// What in these directories may be meant.
  Result<std::vector<std::string>> matches(const std::vector<std::string>& directories,
                                           std::string_view part) {
    std::vector<std::string> paths;
    for (const std::string& directory : directories) {
      const auto listed = root_.open_inside(directory, O_RDONLY | O_DIRECTORY);
      if (!listed && !is_nothing(listed.error())) return cannot_look(directory, listed.error());
      ++names_;  // its own: a pattern that finds none costs something, too
      if (listed)
        each_name("/proc/self/fd/" + std::to_string(listed->get()), [&](const char* entry) {
          if (glob_may_match(part, entry)) paths.push_back(directory + "/" + entry);
          return ++names_ <= kMostReadNames;
        });
      if (names_ > kMostReadNames)
        return fail(ErrorKind::refused, path_in_words(directory) + " has too many names");
    }
    return paths;
  }

  const RootDirectory& root_;
  std::vector<Named> named_;
  std::set<std::pair<std::string, FileSyntax>> seen_;
  std::size_t names_ = 0;  ///< of directories and in them
  std::size_t text_bytes_ = 0;
};

}  // namespace

Ok check_own_sshd_reads(const RootDirectory& root, const std::vector<std::string>& options) {
  LoginReads reads(root);
  for (const char* path : kReadAtLogin) TRY(reads.name(path, FileSyntax::any));
  for (const char* type : kHostKeyTypes)
    for (const char* half : {"_key", "_key.pub"})
      TRY(reads.name(std::string("/etc/ssh/ssh_host_") + type + half, FileSyntax::any));
  for (const char* pattern : kReadByModules) TRY(reads.name_all(pattern, FileSyntax::any));
  TRY(reads.name(kOwnSshdConfig, FileSyntax::sshd_config));
  for (std::size_t i = 1; i < options.size(); ++i) {
    if (options[i - 1] == "-f") TRY(reads.name(options[i], FileSyntax::sshd_config));
    if (options[i - 1] == "-o") TRY(reads.name_all_of_sshd_config(options[i]));
  }
  for (const char* service : kPamServices)
    for (std::string& place : places_of_pam_file(service))
      TRY(reads.name(std::move(place), FileSyntax::pam));
  return reads.look();
}

}  // namespace warmroot::bootstrap
