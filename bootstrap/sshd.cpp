#include "bootstrap/sshd.hpp"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

/// Making an ed25519 key and parsing the configuration take some 20 ms each, seconds in an emulated
/// guest.
constexpr std::chrono::milliseconds kProgramLimit{20000};
constexpr std::size_t kMaxShellWords = 400;
constexpr std::size_t kMostOfPipe = 1 << 20;  // what a user may have a pipe hold
constexpr std::size_t kMaxSshdConfig = 1024 * 1024;
constexpr char kLoginPath[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// A host key for `sshd -T` alone; the host's own are made later in the boot.
Result<std::string> make_probe_key() {
  const std::string key = std::string(kRunDirectory) + "/probe_host_key";
  if (::access(key.c_str(), R_OK) == 0) return key;
  const std::string keygen = first_executable({"/usr/bin/ssh-keygen", "/bin/ssh-keygen"});
  if (keygen.empty()) return fail(ErrorKind::misconfigured, "the base has no ssh-keygen");
  TRY_ASSIGN(const auto made,
             run_program({keygen, "-q", "-t", "ed25519", "-N", "", "-C", "warmroot", "-f", key},
                         kProgramLimit));
  if (made.exit_status != 0)
    return fail(ErrorKind::broken, "ssh-keygen failed: " + first_line(made.output));
  return key;
}

Result<SshdFacts> ask_sshd(const std::string& sshd) {
  // Debian's unit makes it as RuntimeDirectory; sshd -T needs it before that.
  TRY(make_directory("/run/sshd", 0755));
  TRY_ASSIGN(const std::string key, make_probe_key());
  TRY_ASSIGN(const auto dump,
             run_program({sshd, "-T", "-h", key, "-C", kNobodysConnection}, kProgramLimit));
  if (dump.exit_status != 0)
    return fail(ErrorKind::broken,
                "sshd rejects its configuration: " + sshd_complaint(dump.output));
  const SshdFacts facts = parse_sshd_facts(dump.output);
  TRY(check_sshd_facts(facts));
  return facts;
}

/// `sshd -T` would need the configuration without ours, and a second run takes seconds in an
/// emulated guest.
BaseSshd base_sshd() {
  const std::string directory = "/etc/ssh/sshd_config.d/";
  auto names = list_directory(directory);
  std::sort(names.begin(), names.end());
  std::vector<std::string> texts;
  for (const auto& name : names)
    if (name.size() > 5 && name.compare(name.size() - 5, 5, ".conf") == 0 &&
        directory + name != kSshdDropIn)
      texts.push_back(read_file(directory + name, kMaxSshdConfig).value_or(""));
  texts.push_back(read_file("/etc/ssh/sshd_config", kMaxSshdConfig).value_or(""));
  return read_base_sshd(texts);
}

/// What the child of probe_login does; async-signal-safe, because it runs between fork and exec of
/// a threaded program.
struct Login {
  const char* root;
  const char* home;
  const char* shell;
  gid_t gid;
  uid_t uid;
  const gid_t* groups;
  std::size_t group_count;
  char* const* argv;
  char* const* environment;
  int error_fd;
  int output_fd;
  pid_t parent;
};

[[noreturn]] void give_up(const Login& login, const char* step) {
  const int error_number = errno;
  char text[128] = {};
  std::strncpy(text, step, 64);
  std::memcpy(text + 64, &error_number, sizeof error_number);
  [[maybe_unused]] const auto put = ::write(login.error_fd, text, 64 + sizeof error_number);
  ::_exit(126);
}

[[noreturn]] void log_in(const Login& login) {
  close_at_exec(STDERR_FILENO + 1);  // the shell and its profiles are the volume's
  ::setsid();
  if (::chdir(login.root) != 0 || ::chroot(login.root) != 0 || ::chdir("/") != 0)
    give_up(login, "entering the volume");
  // The raw calls: glibc's wrappers would signal threads that this copy of the process does not
  // have.
  if (::syscall(SYS_setgroups, login.group_count, login.groups) != 0)
    give_up(login, "setting groups");
  if (::syscall(SYS_setresgid, login.gid, login.gid, login.gid) != 0)
    give_up(login, "setting the group");
  if (::syscall(SYS_setresuid, login.uid, login.uid, login.uid) != 0)
    give_up(login, "setting the user");
  // A shell whose bootstrap was killed would hold the volume as a person does. Setting the user
  // takes this back, hence here.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(login, "following the bootstrap");
  if (::getppid() != login.parent) ::_exit(126);
  if (::chdir(login.home) != 0 && ::chdir("/") != 0) give_up(login, "entering the home directory");
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) give_up(login, "opening /dev/null");
  ::dup2(null, STDIN_FILENO);
  ::dup2(login.output_fd, STDOUT_FILENO);
  ::dup2(login.output_fd, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(login.shell, login.argv, login.environment);
  give_up(login, "starting the shell");
}

/// tcsh takes no other option together with -l.
bool takes_login_option(const std::string& shell) {
  return shell.size() < 3 || shell.compare(shell.size() - 3, 3, "csh") != 0;
}

/// What has ended has said it by now. Reads only what is there: who was forked by another thread at
/// that moment has the pipe, too, until its exec, which a disk may keep it from.
std::string child_error(int fd) {
  char text[128] = {};
  const ssize_t got = ::read(fd, text, sizeof text);
  int error_number = 0;
  if (got != 64 + static_cast<ssize_t>(sizeof error_number)) return {};
  std::memcpy(&error_number, text + 64, sizeof error_number);
  text[63] = '\0';
  return errno_error(text, error_number).message();
}

/// The end of a login's output, one line. Reads only what is there: what a profile has started may
/// keep it open, and write on as fast as it is read.
std::string shell_words(int fd) {
  std::string words;
  char buffer[4096];
  for (ssize_t got; words.size() < kMostOfPipe && (got = ::read(fd, buffer, sizeof buffer)) > 0;)
    words.append(buffer, static_cast<std::size_t>(got));
  while (!words.empty() && words.back() == '\n') words.pop_back();
  if (words.size() > kMaxShellWords) words.erase(0, words.size() - kMaxShellWords);
  return without_controls(std::move(words));
}

}  // namespace

Result<SshdFacts> install_sshd_config(SshdWishes wishes, SessionLinks links, std::string& note) {
  const std::string sshd =
      first_executable({"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"});
  if (sshd.empty()) return fail(ErrorKind::misconfigured, "the base system has no sshd");
  const BaseSshd base = base_sshd();
  bool second = false;
  if (wishes.node_host_keys) {
    // Before 9.2 it does not know -V, and tells its version together with its usage.
    TRY_ASSIGN(const auto version, run_program({sshd, "-V"}, kProgramLimit));
    const HostKeyReads reads = host_key_reads(version.output);
    note = why_no_node_host_keys(reads, base).value_or("");
    second = note.empty() && reads == HostKeyReads::once;
    wishes.node_host_keys = note.empty() && !second;
    if (links == SessionLinks::to_base) TRY(show_base_host_keys());
  }
  if (links == SessionLinks::to_base) TRY(point_sessions_at("/"));
  TRY(make_directory(kUserKeysDirectory, 0755));
  TRY(write_file_atomic(kSshdConfig, sshd_config(base, wishes), 0644));
  if (::access("/etc/ssh/sshd_config.d", F_OK) != 0)
    TRY(make_directory("/etc/ssh/sshd_config.d", 0755));
  TRY(write_file_atomic(kSshdDropIn, sshd_drop_in(), 0644));
  // Of an earlier bootstrap, in an image that was made of a node.
  if (read_file(kEarlierSshdDropIn, kMaxSshdConfig).value_or("") == sshd_drop_in())
    ::unlink(kEarlierSshdDropIn);
  auto facts = ask_sshd(sshd);
  if (!facts) {
    if (links == SessionLinks::stay) return facts;
    ::unlink(kSshdDropIn);
    ::unlink(kSshdConfig);
    return facts;
  }
  // The HostKey lines are harmless: their link leads to the base's keys and stays there.
  if (wishes.node_host_keys || second) note = why_no_node_host_keys(*facts).value_or("");
  facts->node_host_keys = wishes.node_host_keys && note.empty();
  if (second && note.empty() && !facts->everywhere)
    note = std::string(
        "replacements show other host keys: this OpenSSH reads its own when it "
        "starts, and the base's ListenAddress lines name addresses");
  facts->needs_second_sshd = second && note.empty();
  facts->program = sshd;
  if (wishes.rescue_port != 0 &&
      std::count(facts->ports.begin(), facts->ports.end(), wishes.rescue_port) == 0)
    note += std::string(note.empty() ? "" : "; ") +
            "there is no rescue port: the base's sshd_config has ListenAddress lines with ports";
  return facts;
}

Ok point_sessions_at(const std::string& directory) {
  return replace_symlink(directory, kSessionRoot);
}

Ok check_chroot_path(const std::string& path) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string component = path.substr(0, end);
    struct stat facts {};
    if (::stat(component.c_str(), &facts) != 0) return fail_errno("stat of " + component);
    const char* wrong = nullptr;
    if (!S_ISDIR(facts.st_mode))
      wrong = "is not a directory";
    else if (facts.st_uid != 0)
      wrong = "is not owned by root";
    else if ((facts.st_mode & 022) != 0)
      wrong = "can be written by others than root";
    if (wrong != nullptr)
      return fail(ErrorKind::refused,
                  "sshd would refuse every session: " + component + " " + wrong);
  }
  return {};
}

Ok probe_login(const std::string& root, const User& user, const std::vector<std::uint32_t>& groups,
               std::chrono::milliseconds limit, const Cancelled& cancelled) {
  int errors[2], output[2];
  if (::pipe2(errors, O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("pipe");
  UniqueFd error_read(errors[0]), error_write(errors[1]);
  if (::pipe2(output, O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("pipe");
  UniqueFd output_read(output[0]), output_write(output[1]);
  std::vector<std::string> words{user.shell};
  if (takes_login_option(user.shell)) words.push_back("-l");
  words.insert(words.end(), {"-c", "true"});
  std::vector<std::string> variables{kLoginPath,
                                     "HOME=" + user.home,
                                     "USER=" + user.name,
                                     "LOGNAME=" + user.name,
                                     "SHELL=" + user.shell,
                                     "TERM=dumb"};
  std::vector<char*> argv, environment;
  for (auto& word : words) argv.push_back(word.data());
  for (auto& variable : variables) environment.push_back(variable.data());
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  const Login login{root.c_str(),       user.home.c_str(), user.shell.c_str(), user.gid,
                    user.uid,           groups.data(),     groups.size(),      argv.data(),
                    environment.data(), error_write.get(), output_write.get(), ::getpid()};
  const std::string who = "the probe login of " + user.name;
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("fork");
  if (child == 0) log_in(login);
  error_write.reset();
  output_write.reset();
  auto status = wait_child(child, limit, cancelled);
  ::kill(-child, SIGKILL);  // what a profile left behind would hold the volume
  if (!status && cancelled && cancelled())
    return fail(ErrorKind::retry_later, who + " was stopped");
  if (!status)
    return fail(ErrorKind::retry_later,
                who + " took longer than " + std::to_string(limit.count() / 1000) + " s");
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return {};
  const std::string error = child_error(error_read.get());
  if (!error.empty()) return fail(ErrorKind::refused, who + " failed " + error);
  return fail(ErrorKind::refused,
              who + ": " + user.shell + " failed: " + shell_words(output_read.get()));
}

Ok set_banner(const std::string& pool, const std::string& message, Elsewhere where) {
  if (!message.empty())
    return write_file_atomic(kBannerFile, banner_text(pool, message, where), 0644);
  if (::unlink(kBannerFile) != 0 && errno != ENOENT) return fail_errno("removing the banner");
  return {};
}

}  // namespace warmroot::bootstrap
