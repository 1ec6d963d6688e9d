#include "bootstrap/warm/first_run_files.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "bootstrap/base/units.hpp"

namespace warmroot::warm {
namespace {

/// What may be large, and no more of it than this: a session that never uses it waits for what is
/// read before its own.
struct Bounded {
  const char* path;
  std::uint64_t most_bytes;  ///< of each file
  const char* ending = "";   ///< WantedFile's
};

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
    "/etc/motd",
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
    "/.bash_profile", "/.bash_login",   "/.profile",  "/.bashrc",
    "/.zshrc",        "/.bash_aliases", "/.inputrc",  "/.ssh/authorized_keys",
    "/.bash_history", "/.bash_logout",  "/.gitconfig"};

/// What the profiles of the large distributions run, then what people type first.
constexpr const char* kLoginPrograms[] = {
    "/usr/bin/id",
    "/usr/bin/groups",
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

/// Where conda is, with a Python of its own, which the profiles of whoever has it start at each
/// login; the latter below the homes of the first users. Where there is none, lookups end at the
/// first directory.
constexpr const char* kCondas[] = {"/opt/conda", "/opt/miniconda3"};
constexpr const char* kCondasOfUser[] = {"/miniconda3", "/anaconda3", "/miniforge3"};
constexpr std::size_t kMostCondaUsers = 4;

/// With the libraries of each. What is large and seldom wanted comes further down.
constexpr const char* kPrograms[] = {"/usr/bin/python3",
                                     "/usr/local/bin/python3",
                                     "/usr/libexec/platform-python",
                                     "/usr/bin/perl",
                                     "/usr/bin/git",
                                     "/usr/lib/git-core/git",
                                     "/usr/libexec/git-core/git",
                                     "/usr/bin/ssh",
                                     "/usr/bin/curl",
                                     "/usr/bin/openssl",
                                     "/usr/bin/dpkg-query",
                                     "/usr/bin/dpkg",
                                     "/usr/bin/apt",
                                     "/usr/bin/apt-get",
                                     "/usr/bin/apt-cache",
                                     "/usr/bin/rpm",
                                     "/usr/bin/dnf",
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
                                         "/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt",
                                         "/etc/gai.conf",
                                         "/etc/services",
                                         "/etc/ssh/ssh_config",
                                         "/etc/gitconfig",
                                         "/usr/share/git-core/templates/**",
                                         "/usr/lib/x86_64-linux-gnu/perl-base/**",
                                         "/usr/lib/aarch64-linux-gnu/perl-base/**"};

/// What each start of dpkg and apt, or of rpm and dnf, reads: a few MiB of a usual system.
constexpr Bounded kPackageFiles[] = {{"/var/lib/dpkg/status", 8 * kMiB},
                                     {"/var/lib/dpkg/available", kMiB},
                                     {"/var/lib/dpkg/arch", kMiB},
                                     {"/var/lib/dpkg/diversions", kMiB},
                                     {"/var/lib/dpkg/statoverride", kMiB},
                                     {"/var/lib/dpkg/triggers/*", kMiB},
                                     {"/var/lib/dpkg/info/format", kMiB},
                                     {"/etc/dpkg/dpkg.cfg", kMiB},
                                     {"/etc/dpkg/dpkg.cfg.d/*", kMiB},
                                     {"/usr/share/dpkg/cputable", kMiB},
                                     {"/usr/share/dpkg/tupletable", kMiB},
                                     {"/etc/apt/apt.conf", kMiB},
                                     {"/etc/apt/apt.conf.d/*", kMiB},
                                     {"/etc/apt/preferences", kMiB},
                                     {"/etc/apt/preferences.d/*", kMiB},
                                     {"/etc/apt/sources.list", kMiB},
                                     {"/etc/apt/sources.list.d/*", kMiB},
                                     {"/var/lib/apt/extended_states", kMiB},
                                     {"/usr/lib/rpm/rpmrc", kMiB},
                                     {"/usr/lib/rpm/macros", kMiB},
                                     {"/usr/lib/rpm/macros.d/*", kMiB},
                                     {"/usr/lib/rpm/platform/x86_64-linux/macros", kMiB},
                                     {"/usr/lib/rpm/platform/aarch64-linux/macros", kMiB},
                                     {"/usr/lib/rpm/fileattrs/*", kMiB},
                                     {"/usr/lib/rpm/redhat/macros", kMiB},
                                     {"/etc/rpm/*", kMiB},
                                     {"/etc/dnf/*", kMiB},
                                     {"/etc/dnf/vars/*", kMiB},
                                     {"/etc/yum.repos.d/*", kMiB}};

/// What else they read to install something, or to look for it in all packages; dpkg's lists are a
/// file a package. A system has those of one of them.
constexpr Bounded kPackageDatabases[] = {{"/var/lib/dpkg/info/*", 256 * kKiB, ".list"},
                                         {"/var/lib/rpm/rpmdb.sqlite", 32 * kMiB},
                                         {"/var/lib/rpm/Name", 4 * kMiB},
                                         {"/var/lib/rpm/Packages", 32 * kMiB},
                                         {"/usr/share/keyrings/*", kMiB},
                                         {"/etc/apt/trusted.gpg.d/*", kMiB},
                                         {"/var/cache/debconf/config.dat", 4 * kMiB},
                                         {"/var/cache/debconf/templates.dat", 4 * kMiB}};
constexpr const char* kPackagePrograms[] = {"/usr/lib/apt/methods/http",
                                            "/usr/lib/apt/methods/gpgv", "/usr/bin/gpgv",
                                            "/usr/bin/dpkg-deb", "/usr/bin/tar"};
/// dnf is of Python, from RHEL 8 and Amazon Linux 2023 on.
constexpr const char* kDnfModules[] = {"/site-packages/dnf/**", "/site-packages/hawkey/**",
                                       "/site-packages/libdnf/**", "/site-packages/rpm/**"};

/// Of NVIDIA's driver what asks for the devices, and what every CUDA program loads by name.
constexpr const char* kAcceleratorPrograms[] = {"/usr/bin/nvidia-smi"};
constexpr Bounded kAcceleratorFiles[] = {{"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", 4 * kMiB},
                                         {"/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1", 4 * kMiB},
                                         {"/usr/lib64/libnvidia-ml.so.1", 4 * kMiB},
                                         {"/usr/lib/x86_64-linux-gnu/libcuda.so.1", 32 * kMiB},
                                         {"/usr/lib/aarch64-linux-gnu/libcuda.so.1", 32 * kMiB},
                                         {"/usr/lib64/libcuda.so.1", 32 * kMiB}};

/// In the order in which an interpreter's start needs them; then what it imports.
constexpr const char* kPythonParts[] = {"/encodings/__pycache__/*",   "/__pycache__/*",
                                        "/collections/__pycache__/*", "/importlib/__pycache__/*",
                                        "/re/__pycache__/*",          "/site-packages/*",
                                        "/dist-packages/*",           "/lib-dynload/*",
                                        "/json/__pycache__/*",        "/logging/__pycache__/*",
                                        "/urllib/__pycache__/*",      "/http/__pycache__/*",
                                        "/email/__pycache__/*",       "/concurrent/__pycache__/*",
                                        "/asyncio/__pycache__/*"};
constexpr const char* kPythons[] = {"/usr/lib", "/usr/lib64"};
/// Built by hand: of what is installed into it only what its start reads is looked up.
constexpr const char* kOtherPython = "/usr/local/lib";

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

/// Tens of MiB each. apt reads its index whole, where its lists have been fetched.
constexpr const char* kLargePrograms[] = {"/usr/bin/node", "/usr/bin/docker"};
constexpr const char* kLargeFiles[] = {"/usr/local/aws-cli/v2/current/dist/*",
                                       "/var/cache/apt/pkgcache.bin"};

std::vector<std::string> condas_of(std::span<const LoginUser> users) {
  std::vector<std::string> places;
  for (const LoginUser& user : users.first(std::min(users.size(), kMostCondaUsers)))
    if (user.home.size() > 1)
      for (const char* name : kCondasOfUser) places.push_back(user.home + name);
  return places;
}

/// The names in their order.
class Names {
 public:
  void add(std::string path, bool is_program = false) {
    files_.push_back({std::move(path), 0, UINT64_MAX, is_program});
  }
  void add_files(std::span<const char* const> paths) {
    for (const char* path : paths) add(path);
  }
  void add_programs(std::span<const char* const> paths) {
    for (const char* path : paths) add(path, true);
  }
  void add_bounded(std::span<const Bounded> names) {
    for (const Bounded& name : names)
      files_.push_back({name.path, 0, name.most_bytes, false, name.ending});
  }
  /// Of each version that may lie in a directory like "/usr/lib".
  void add_of_pythons(std::span<const std::string> places, const char* part) {
    for (int minor = kNewestPython; minor >= kOldestPython; --minor)
      for (const std::string& place : places)
        add(place + "/python3." + std::to_string(minor) + part);
  }
  void add_of_gccs(const char* place, const char* part, bool is_program) {
    for (int major = kNewestGcc; major >= kOldestGcc; --major)
      add(place + std::to_string(major) + part, is_program);
  }
  std::vector<WantedFile> take() { return std::move(files_); }

 private:
  std::vector<WantedFile> files_;
};

/// All that a login opens, with the usual programs behind it.
void add_login(Names& names) {
  names.add_files(kEveryProgram);
  names.add("/bin/sh", true);
  names.add("/bin/bash", true);
  names.add_files(kLogin);
  names.add_programs(kLoginPrograms);
  names.add_files(kAccess);
  for (const char* path : {"/usr/sbin/sshd", "/usr/lib/openssh/sshd-session"})
    names.add(path, true);
}

/// Where their Pythons are.
std::vector<std::string> add_condas(Names& names, std::span<const std::string> condas) {
  std::vector<std::string> pythons;
  for (const std::string& conda : condas) {
    names.add(conda + "/etc/profile.d/conda.sh");
    names.add(conda + "/bin/conda");
    names.add(conda + "/bin/python3", true);
    pythons.push_back(conda + "/lib");
  }
  return pythons;
}

void add_compilers(Names& names) {
  for (const char* program : {"/cc1plus", "/collect2"})
    for (const char* place : kGccPlaces) names.add_of_gccs(place, program, true);
  names.add_files(kHeaders);
  for (const char* place : kCxxHeaders)
    for (const char* part : {"/*", "/bits/*", "/ext/*"}) names.add_of_gccs(place, part, false);
  for (const char* place : kGccPlaces) names.add_of_gccs(place, "/include/*", false);
}

}  // namespace

std::vector<WantedFile> first_run_files() {
  Names names;
  add_login(names);
  const std::vector<std::string> system_pythons(std::begin(kPythons), std::end(kPythons));
  names.add_programs(kPrograms);
  const std::vector<std::string> conda_pythons =
      add_condas(names, std::vector<std::string>(std::begin(kCondas), std::end(kCondas)));
  std::vector<std::string> pythons = system_pythons;
  pythons.push_back(kOtherPython);
  pythons.insert(pythons.end(), conda_pythons.begin(), conda_pythons.end());
  names.add_files(kProgramFiles);
  names.add_bounded(kPackageFiles);
  for (const char* part : kPythonParts) names.add_of_pythons(pythons, part);
  names.add_of_pythons(conda_pythons, "/site-packages/conda/**");
  for (const char* part : kDnfModules) names.add_of_pythons(system_pythons, part);
  names.add_programs(kPackagePrograms);
  names.add_files(kModules);
  for (int minor = kNewestPerl; minor >= kOldestPerl; minor -= 2)
    for (const char* place : kPerlPlaces) names.add(place + std::to_string(minor) + "/**");
  add_compilers(names);
  names.add_programs(kAcceleratorPrograms);
  names.add_bounded(kAcceleratorFiles);
  names.add_bounded(kPackageDatabases);
  names.add_of_pythons(pythons, "/site-packages/pip/**");
  names.add_of_pythons(system_pythons, "/**");
  for (const char* place : kGccPlaces) names.add_of_gccs(place, "/cc1", true);
  for (const char* place : kGccPlaces) names.add_of_gccs(place, "/*", false);
  names.add_programs(kLargePrograms);
  names.add_files(kLargeFiles);
  names.add_files(kWholeDirectories);
  return names.take();
}

WantedOfRoot first_run_files_of(std::span<const LoginUser> users) {
  Names first;
  for (const LoginUser& user : users)
    if (!user.shell.empty()) first.add(user.shell, true);
  for (const LoginUser& user : users)
    if (user.home.size() > 1)
      for (const char* name : kHome) first.add(user.home + name);
  Names last;
  const std::vector<std::string> pythons = add_condas(last, condas_of(users));
  for (const char* part : kPythonParts) last.add_of_pythons(pythons, part);
  for (const char* part : {"/site-packages/conda/**", "/site-packages/pip/**"})
    last.add_of_pythons(pythons, part);
  return {first.take(), last.take()};
}

}  // namespace warmroot::warm
