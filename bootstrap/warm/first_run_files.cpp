#include "bootstrap/warm/first_run_files.hpp"

namespace warmroot::warm {
namespace {

/// The loader and the C library's name services, before any program's first line.
constexpr const char* kEveryProgram[] = {"/lib64/ld-linux-x86-64.so.2",
                                         "/lib/ld-linux-aarch64.so.1",
                                         "/usr/lib/x86_64-linux-gnu/libc.so.6",
                                         "/usr/lib/aarch64-linux-gnu/libc.so.6",
                                         "/usr/lib64/libc.so.6",
                                         "/etc/ld.so.cache",
                                         "/etc/nsswitch.conf",
                                         "/etc/passwd",
                                         "/etc/group",
                                         "/usr/lib/locale/locale-archive"};

constexpr const char* kLogin[] = {
    "/etc/profile",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/profile.d/*",
    "/etc/environment",
    "/etc/os-release",
    "/etc/default/locale",
    "/etc/locale.conf",
    "/usr/share/locale/locale.alias",
    "/etc/inputrc",
    "/etc/zsh/*",
    "/etc/localtime",
    "/etc/hosts",
    "/etc/host.conf",
    "/usr/lib/locale/C.utf8/*",
    "/usr/lib/locale/C.utf8/LC_MESSAGES/*",
    "/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache",
    "/usr/lib64/gconv/gconv-modules.cache",
    "/usr/share/bash-completion/bash_completion",
    "/usr/lib/terminfo/x/xterm-256color",
    "/usr/lib/terminfo/x/xterm",
    "/usr/share/terminfo/x/xterm-256color",
    "/usr/share/terminfo/x/xterm",
};

constexpr const char* kHome[] = {
    "/.bash_profile", "/.bash_login",   "/.profile", "/.bashrc",
    "/.zshrc",        "/.bash_aliases", "/.inputrc", "/.ssh/authorized_keys"};

/// What the profiles of the large distributions run, then what people type first.
constexpr const char* kLoginPrograms[] = {
    "/usr/bin/id",
    "/usr/bin/mesg",
    "/usr/bin/dircolors",
    "/usr/bin/lesspipe",
    "/usr/bin/basename",
    "/usr/bin/tput",
    "/usr/bin/ls",
    "/usr/bin/cat",
    "/usr/bin/cp",
    "/usr/bin/uname",
    "/usr/bin/grep",
    "/usr/bin/sed",
    "/usr/bin/hostname",
    "/usr/bin/env",
    "/usr/bin/tty",
    "/usr/bin/stty",
    "/usr/bin/locale",
    "/usr/bin/dirname",
    "/usr/bin/mkdir",
    "/usr/bin/mktemp",
    "/usr/bin/rm",
    "/usr/bin/sudo",
    "/usr/bin/less",
    "/usr/bin/which",
    "/usr/bin/head",
    "/usr/bin/tail",
    "/usr/bin/sort",
    "/usr/bin/ps",
    "/usr/bin/find",
    "/usr/bin/df",
    "/usr/bin/date",
    "/usr/bin/scp",
    "/usr/bin/rsync",
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
};

/// With the libraries of each. What is large and seldom wanted comes further down.
constexpr const char* kPrograms[] = {"/usr/bin/python3",
                                     "/usr/bin/perl",
                                     "/usr/bin/git",
                                     "/usr/lib/git-core/git",
                                     "/usr/libexec/git-core/git",
                                     "/usr/bin/ssh",
                                     "/usr/bin/curl",
                                     "/usr/bin/openssl",
                                     "/usr/bin/make",
                                     "/usr/bin/gcc",
                                     "/usr/bin/g++",
                                     "/usr/bin/as",
                                     "/usr/bin/ld"};

/// Of who lets people in, and of sudo and su.
constexpr const char* kAccess[] = {"/etc/shadow",
                                   "/etc/login.defs",
                                   "/etc/sudoers",
                                   "/etc/sudoers.d/*",
                                   "/etc/pam.d/*",
                                   "/etc/security/*",
                                   "/etc/ssh/*",
                                   "/etc/ssh/sshd_config.d/*",
                                   "/usr/lib/x86_64-linux-gnu/libnss_files.so.2",
                                   "/usr/lib/x86_64-linux-gnu/libpam.so.0",
                                   "/usr/lib/x86_64-linux-gnu/security/*",
                                   "/usr/lib/aarch64-linux-gnu/libpam.so.0",
                                   "/usr/lib/aarch64-linux-gnu/security/*",
                                   "/usr/lib64/libpam.so.0",
                                   "/usr/lib64/security/*"};

/// What those read at their start.
constexpr const char* kProgramFiles[] = {"/etc/ssl/openssl.cnf",
                                         "/etc/ssh/ssh_config",
                                         "/etc/gitconfig",
                                         "/usr/share/git-core/templates/**",
                                         "/usr/lib/x86_64-linux-gnu/perl-base/**",
                                         "/usr/lib/aarch64-linux-gnu/perl-base/**"};

/// In the order in which an interpreter's start needs them; then what it imports.
constexpr const char* kPythonParts[] = {
    "/encodings/__pycache__/*", "/__pycache__/*",         "/collections/__pycache__/*",
    "/importlib/__pycache__/*", "/re/__pycache__/*",      "/lib-dynload/*",
    "/json/__pycache__/*",      "/logging/__pycache__/*", "/urllib/__pycache__/*",
    "/http/__pycache__/*",      "/email/__pycache__/*",   "/concurrent/__pycache__/*",
    "/asyncio/__pycache__/*"};

/// Modules that people's scripts import; those of one version are found below.
constexpr const char* kModules[] = {"/usr/lib/python3/dist-packages/**", "/usr/share/perl5/**",
                                    "/usr/lib64/perl5/**"};
constexpr const char* kPerlPlaces[] = {"/usr/lib/x86_64-linux-gnu/perl/5.",
                                       "/usr/lib/aarch64-linux-gnu/perl/5.", "/usr/share/perl/5."};
constexpr int kOldestPerl = 26;  // stable ones have even numbers
constexpr int kNewestPerl = 42;

/// A compiler's first headers.
constexpr const char* kHeaders[] = {"/usr/include/stdc-predef.h",
                                    "/usr/include/x86_64-linux-gnu/bits/*",
                                    "/usr/include/aarch64-linux-gnu/bits/*",
                                    "/usr/include/*",
                                    "/usr/include/x86_64-linux-gnu/sys/*",
                                    "/usr/include/aarch64-linux-gnu/sys/*",
                                    "/usr/include/x86_64-linux-gnu/asm/*",
                                    "/usr/include/aarch64-linux-gnu/asm/*",
                                    "/usr/include/asm-generic/*",
                                    "/usr/include/linux/*"};
constexpr const char* kCxxHeaders[] = {"/usr/include/c++/", "/usr/include/x86_64-linux-gnu/c++/",
                                       "/usr/include/aarch64-linux-gnu/c++/"};
constexpr int kOldestPython = 6;  // 3.6, RHEL 8
constexpr int kNewestPython = 15;
constexpr int kOldestGcc = 8;
constexpr int kNewestGcc = 16;
constexpr const char* kGccPlaces[] = {
    "/usr/lib/gcc/x86_64-linux-gnu/", "/usr/lib/gcc/aarch64-linux-gnu/",
    "/usr/lib/gcc/x86_64-redhat-linux/", "/usr/libexec/gcc/x86_64-linux-gnu/",
    "/usr/libexec/gcc/x86_64-redhat-linux/"};

constexpr const char* kWholeDirectories[] = {"/usr/lib/x86_64-linux-gnu/*",
                                             "/usr/lib/aarch64-linux-gnu/*",
                                             "/usr/lib64/*",
                                             "/usr/bin/*",
                                             "/usr/local/bin/*",
                                             "/usr/local/lib/*",
                                             "/usr/sbin/*"};

}  // namespace

std::vector<WantedFile> first_run_files(std::span<const LoginUser> users) {
  std::vector<WantedFile> files;
  const auto add = [&files](std::string path, bool is_program = false) {
    files.push_back({std::move(path), 0, UINT64_MAX, is_program});
  };
  for (const char* path : kEveryProgram) add(path);
  for (const LoginUser& user : users)
    if (!user.shell.empty()) add(user.shell, true);
  add("/bin/sh", true);
  add("/bin/bash", true);
  for (const char* path : kLogin) add(path);
  for (const LoginUser& user : users)
    if (user.home.size() > 1)
      for (const char* name : kHome) add(user.home + name);
  for (const char* path : kLoginPrograms) add(path, true);
  for (const char* path : kAccess) add(path);
  for (const char* path : {"/usr/sbin/sshd", "/usr/lib/openssh/sshd-session"}) add(path, true);
  for (const char* path : kPrograms) add(path, true);
  for (const char* path : kProgramFiles) add(path);
  const auto of_pythons = [&add](const char* part) {
    for (int minor = kNewestPython; minor >= kOldestPython; --minor)
      for (const char* place : {"/usr/lib/python3.", "/usr/lib64/python3."})
        add(place + std::to_string(minor) + part);
  };
  const auto of_gccs = [&add](const char* place, const char* part, bool is_program) {
    for (int major = kNewestGcc; major >= kOldestGcc; --major)
      add(place + std::to_string(major) + part, is_program);
  };
  for (const char* part : kPythonParts) of_pythons(part);
  for (const char* path : kModules) add(path);
  for (int minor = kNewestPerl; minor >= kOldestPerl; minor -= 2)
    for (const char* place : kPerlPlaces) add(place + std::to_string(minor) + "/**");
  for (const char* program : {"/cc1plus", "/collect2"})
    for (const char* place : kGccPlaces) of_gccs(place, program, true);
  for (const char* path : kHeaders) add(path);
  for (const char* place : kCxxHeaders)
    for (const char* part : {"/*", "/bits/*", "/ext/*"}) of_gccs(place, part, false);
  for (const char* place : kGccPlaces) of_gccs(place, "/include/*", false);
  of_pythons("/**");
  for (const char* place : kGccPlaces) of_gccs(place, "/cc1", true);
  for (const char* place : kGccPlaces) of_gccs(place, "/*", false);
  add("/usr/bin/node", true);
  for (const char* path : kWholeDirectories) add(path);
  return files;
}

}  // namespace warmroot::warm
