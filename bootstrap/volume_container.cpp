#include "bootstrap/volume_container.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <vector>

#include "bootstrap/beside.hpp"
#include "bootstrap/container_plan.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/loopback_port.hpp"
#include "bootstrap/own_unit.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/process_stat.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxProc = 65536;
constexpr int kPauseMs = 20;
/// nspawn's status where the container was rebooted and the unit around it is not its own. Source:
/// systemd-nspawn(1), Exit Status.
constexpr int kRebooted = 133;
/// For what was killed to be gone.
constexpr std::chrono::milliseconds kKilled{2000};
/// nspawn makes these anew, and would take what is mounted there for a system that is prepared.
constexpr const char* kMadeAnew[] = {"dev", "proc", "sys", "run"};
constexpr char kMachineId[] = "etc/machine-id";

std::string nspawn_program() {
  return first_executable({"/usr/bin/systemd-nspawn", "/bin/systemd-nspawn"});
}

std::string of_process(pid_t process, const char* file) {
  return read_file("/proc/" + std::to_string(process) + "/" + file, kMaxProc).value_or("");
}

std::string namespace_of_pids(pid_t process) {
  return link_text("/proc/" + std::to_string(process) + "/ns/pid");
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> processes;
  for (const auto& name : list_directory("/proc"))
    if (const int process = std::atoi(name.c_str()); process > 0) processes.push_back(process);
  return processes;
}

/// Where the volume's resolv.conf is a link into /run, which the container has anew.
std::string resolv_conf_in_run(const RootDirectory& root) {
  const auto file = root.open_inside("etc/resolv.conf", O_PATH);
  if (!file) return {};
  std::string path = link_text("/proc/self/fd/" + std::to_string(file->get()));
  if (!path.starts_with(kVolumePoint)) return {};
  path.erase(0, std::string(kVolumePoint).size());
  return takes_resolv_conf(path) ? path : std::string();
}

/// What is there itself, no link followed at its end; 0 where nothing is.
Result<mode_t> mode_inside(const RootDirectory& root, const std::string& path) {
  const auto found = root.open_inside(path, O_PATH | O_NOFOLLOW);
  if (!found && found.error().kind == ErrorKind::gone) return mode_t{0};
  if (!found) return fail(found.error());
  struct stat facts {};
  if (::fstat(found->get(), &facts) != 0) return fail_errno("stat of /" + path + " in the volume");
  return facts.st_mode;
}

/// nspawn finds these by their paths on the base, before the volume is its root. Behind a link it
/// would make its devices in a directory of the base's, open a device of the base's, which may do
/// something then, or wait at a pipe. Source: nspawn.c of systemd 252 (copy_devnodes,
/// setup_machine_id).
Ok check_no_link_leads_out(const RootDirectory& root) {
  std::vector<std::string> places(std::begin(kMadeAnew), std::end(kMadeAnew));
  places.emplace_back("etc");
  places.emplace_back(kMachineId);
  for (const std::string& place : places) {
    TRY_ASSIGN(const mode_t mode, mode_inside(root, place));
    if (S_ISLNK(mode))
      return fail(ErrorKind::refused, "/" + place +
                                          " in the volume is a symbolic link, which systemd-nspawn "
                                          "would follow on the base");
    if (place == kMachineId && mode != 0 && !S_ISREG(mode))
      return fail(ErrorKind::refused, "/" + place + " in the volume is no regular file");
  }
  return {};
}

}  // namespace

VolumeContainer::~VolumeContainer() {
  end(kEndLimit);
}

Ok VolumeContainer::check_possible(const RootDirectory& root) const {
  if (nspawn_program().empty())
    return fail(ErrorKind::refused,
                "the base has no systemd-nspawn, install its package systemd-container");
  if (!root.is_executable("usr/lib/systemd/systemd") && !root.is_executable("lib/systemd/systemd"))
    return fail(ErrorKind::refused, "the init of the volume is not systemd");
  return check_no_link_leads_out(root);
}

Ok VolumeContainer::start(const RootDirectory& root, const OwnSshdWishes& wishes, int log) {
  TRY(write_file_atomic(kContainerSshdUnit, container_sshd_unit(wishes), 0644));
  ContainerFacts facts;
  facts.nspawn = nspawn_program();
  facts.systemd_run = systemd_run_program();
  facts.devices = devices_to_share(list_directory("/dev"));
  facts.sshd_unit = kContainerSshdUnit;
  // Once: a volume that does not answer must not hold up who starts it anew.
  if (!resolv_conf_) resolv_conf_ = resolv_conf_in_run(root);
  facts.resolv_conf = *resolv_conf_;
  port_ = wishes.port;
  ended_.reset();
  rebooted_ = false;
  const std::string top = std::string(kVolumePoint) + "/";
  std::vector<std::string> unmounted;
  for (const char* place : kMadeAnew) unmounted.push_back(top + place);
  // As check_possible, once more: root in the container may have changed them, and rebooted it.
  std::vector<std::string> no_links = unmounted;
  no_links.push_back(top + "etc");
  // /tmp stays the volume's: its own init may put a tmpfs there.
  TRY_ASSIGN(nspawn_, start_beside({container_command(facts),
                                    {"SYSTEMD_NSPAWN_TMPFS_TMP=0"},
                                    -1,
                                    log,
                                    std::move(unmounted),
                                    std::move(no_links),
                                    {top + kMachineId}}));
  return {};
}

std::string VolumeContainer::describe() const {
  if (sshd_ == 0) return "nspawn: the volume's system, which is starting";
  return "nspawn: the volume's sshd (process " + std::to_string(sshd_) +
         ") under its own init (process " + std::to_string(init_) + ")";
}

std::optional<std::string> VolumeContainer::how_it_ended() {
  int status = 0;
  if (!ended_ && nspawn_ != 0 && ::waitpid(nspawn_, &status, WNOHANG) == nspawn_) {
    ended_ = "the volume's container " + end_in_words(status);
    rebooted_ = WIFEXITED(status) && WEXITSTATUS(status) == kRebooted;
  }
  return ended_;
}

/// nspawn's child that is the first process of a namespace.
bool VolumeContainer::find_init() {
  if (init_ != 0 || nspawn_ == 0) return init_ != 0;
  for (const pid_t process : all_processes()) {
    const auto stat = parse_process_stat(of_process(process, "stat"));
    if (!stat || stat->parent != nspawn_ || innermost_pid(of_process(process, "status")) != 1)
      continue;
    init_ = process;
    init_handle_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    pids_ = namespace_of_pids(process);
  }
  return init_ != 0;
}

/// Root's, begun by init in the unit: what people run is none of these.
bool VolumeContainer::is_sshd(pid_t process) const {
  const auto stat = parse_process_stat(of_process(process, "stat"));
  struct stat owner {};
  return stat && stat->parent == init_ && in_sshd_unit(of_process(process, "cgroup")) &&
         ::stat(("/proc/" + std::to_string(process)).c_str(), &owner) == 0 && owner.st_uid == 0;
}

UniqueFd VolumeContainer::listener(IpFamily family) {
  if (ended_ || !find_init()) return UniqueFd();
  if (sshd_ != 0 && is_sshd(sshd_))
    if (UniqueFd listener = listener_of(sshd_, family, port_)) return listener;
  for (const pid_t process : all_processes()) {
    if (!is_sshd(process)) continue;
    if (UniqueFd listener = listener_of(process, family, port_)) {
      sshd_ = process;
      return listener;
    }
  }
  return UniqueFd();
}

bool VolumeContainer::runs(pid_t process) const {
  return init_ != 0 && namespace_of_pids(process) == pids_ &&
         !in_session(of_process(process, "cgroup"), process == sshd_);
}

bool VolumeContainer::wait_for_nspawn(std::chrono::milliseconds limit) {
  const std::int64_t deadline = boottime_ms() + limit.count();
  while (!how_it_ended() && boottime_ms() < deadline) ::poll(nullptr, 0, kPauseMs);
  return ended_.has_value();
}

/// And with it, by the kernel, all of its namespace.
void VolumeContainer::kill_init() {
  if (!init_handle_) return;
  ::syscall(SYS_pidfd_send_signal, init_handle_.get(), SIGKILL, nullptr, 0);
  pollfd gone{init_handle_.get(), POLLIN, 0};
  ::poll(&gone, 1, static_cast<int>(kKilled.count()));
}

bool VolumeContainer::end(std::chrono::milliseconds limit) {
  if (nspawn_ == 0) return false;
  find_init();
  // It tells the volume's init to power off, once: one that has just begun does not hear it.
  if (!how_it_ended()) ::kill(nspawn_, SIGTERM);
  if (!wait_for_nspawn(limit)) {
    find_init();
    kill_init();
  }
  if (!wait_for_nspawn(kKilled)) {
    ::kill(nspawn_, SIGKILL);
    if (!wait_for_nspawn(kKilled)) give_up(nspawn_);
  }
  // One that outlived its nspawn.
  kill_init();
  nspawn_ = init_ = sshd_ = 0;
  init_handle_ = UniqueFd();
  pids_.clear();
  ::unlink(kContainerSshdUnit);
  return true;
}

}  // namespace warmroot::bootstrap
