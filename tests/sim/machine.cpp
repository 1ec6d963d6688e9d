#include "tests/sim/machine.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

namespace warmroot::sim {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
using std::chrono::milliseconds;

/// QEMU opens its sockets within a second even on a busy host.
constexpr milliseconds kMonitorTimeout{10000};
/// How long one question holds its caller up; an answer that comes later is read by the next.
constexpr milliseconds kAgentTimeout{300};
/// The hot-unplug interrupt and the guest's driver take about 0.3 s under emulation.
constexpr milliseconds kUnplugTimeout{4000};
/// A working KVM prints the kernel's first line within a second; one that hangs never does.
constexpr milliseconds kTrialTimeout{6000};
constexpr int kSlots = 4;

std::string serial_of(std::string volume_id) {
  std::erase(volume_id, '-');
  return volume_id;
}

int free_port() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return 0;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

/// Starts a program with its output in `log`; it dies with us, also when we are killed.
pid_t spawn(const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(null, 0);
  ::dup2(out, 1);
  ::dup2(out, 2);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

std::vector<std::string> common_arguments(const std::string& accelerator, int memory_mib) {
  return {"qemu-system-x86_64",
          "-nodefaults",
          "-no-user-config",
          "-display",
          "none",
          "-machine",
          "q35",
          "-accel",
          accelerator == "kvm" ? "kvm" : "tcg,thread=multi",
          "-cpu",
          "max",
          "-smp",
          "1",
          "-m",
          std::to_string(memory_mib)};
}

void append(std::vector<std::string>& arguments, std::initializer_list<std::string> more) {
  arguments.insert(arguments.end(), more);
}

/// What the firmware says of an instance: who made it, and one id as serial and UUID, by which
/// cloud-init knows EC2. Source: EC2 user guide, "Detect whether a host is an EC2 instance".
std::string smbios(const MachineSpec& spec) {
  const std::string id = smbios_uuid(spec);
  return "type=1,manufacturer=Amazon EC2,serial=" + id + ",uuid=" + id;
}

/// slirp's own way to the host's loopback would make all guests come from one address.
std::string manager_forward(const MachineOptions& options, const MachineSpec& spec) {
  if (options.manager_port == 0) return {};
  const bool has_own = spec.private_ip.starts_with("127.");
  return ",guestfwd=tcp:169.254.0.4:8470-cmd:" + options.relay_program + " relay " +
         std::to_string(options.manager_port) + (has_own ? " --from " + spec.private_ip : "");
}

}  // namespace

std::string smbios_uuid(const MachineSpec& spec) {
  std::string digits;
  for (const char letter : spec.instance_id + spec.mac)
    if (std::isxdigit(static_cast<unsigned char>(letter))) digits += letter;
  digits.resize(29, '0');
  digits.insert(0, "ec2");
  for (const std::size_t dash : {8, 13, 18, 23}) digits.insert(dash, "-");
  return digits;
}

std::string find_accelerator(const std::string& kernel) {
  if (::access("/dev/kvm", R_OK | W_OK) != 0) return "tcg";
  char log[] = "/tmp/warmroot-kvm-trial.XXXXXX";
  const UniqueFd file(::mkstemp(log));
  if (!file) return "tcg";
  auto arguments = common_arguments("kvm", 256);
  append(arguments, {"-no-reboot", "-kernel", kernel, "-append",
                     "console=ttyS0 earlyprintk=ttyS0 panic=-1", "-serial", "stdio"});
  const pid_t child = spawn(arguments, log);
  bool booted = false;
  int status = 0;
  const auto deadline = Clock::now() + kTrialTimeout;
  while (!booted && Clock::now() < deadline && ::waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(milliseconds{50});
    std::stringstream text;
    text << std::ifstream(log).rdbuf();
    booted = text.str().find("Linux version") != std::string::npos;
  }
  if (::kill(child, SIGKILL) == 0) ::waitpid(child, &status, 0);
  ::unlink(log);
  return booted ? "kvm" : "tcg";
}

Result<std::unique_ptr<Machine>> Machine::start(const MachineOptions& options,
                                                const MachineSpec& spec,
                                                const std::string& root_disk) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  std::unique_ptr<Machine> machine(new Machine);
  const std::string base = options.directory + "/" + spec.instance_id;
  machine->console_log_ = base + ".console";
  machine->ssh_port_ = free_port();

  auto arguments = common_arguments(options.accelerator, options.memory_mib);
  append(arguments,
         {"-kernel", options.kernel, "-append",
          "console=ttyS0 quiet loglevel=4 root=/dev/nvme0n1 rw panic=-1 mitigations=off "
          // An emulated timer that gets no CPU for a while makes the kernel panic in its check.
          "no_timer_check "
          "random.trust_cpu=on",
          "-serial", "file:" + machine->console_log_, "-qmp",
          "unix:" + base + ".qmp,server=on,wait=off", "-blockdev",
          "driver=qcow2,node-name=root,file.driver=file,file.filename=" + root_disk, "-device",
          "nvme,drive=root,serial=" + serial_of(spec.root_volume_id),
          // slirp answers for the link-local network itself; guestfwd must lie inside it.
          "-netdev",
          "user,id=net0,net=169.254.0.0/16,host=169.254.0.2,dns=169.254.0.3,dhcpstart=169.254.0.15"
          ",hostfwd=tcp:127.0.0.1:" +
              std::to_string(machine->ssh_port_) +
              "-169.254.0.15:22"
              ",guestfwd=tcp:169.254.169.254:80-cmd:" +
              options.relay_program + " relay " + std::to_string(spec.imds_port) +
              manager_forward(options, spec),
          "-device", "virtio-net-pci,netdev=net0" + (spec.mac.empty() ? "" : ",mac=" + spec.mac),
          "-smbios", smbios(spec), "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
          "-chardev", "socket,id=agent,path=" + base + ".agent,server=on,wait=off", "-device",
          "virtserialport,chardev=agent,name=warmroot.agent"});
  for (int slot = 1; slot <= kSlots; ++slot) {
    const std::string number = std::to_string(slot);
    append(arguments, {"-device", "pcie-root-port,id=slot" + number + ",chassis=" + number +
                                      ",slot=" + number});
  }
  machine->pid_ = spawn(arguments, base + ".qemu");
  if (machine->pid_ < 0) return fail_errno("fork");
  if (auto connected = machine->qmp_.connect(base + ".qmp", kMonitorTimeout); !connected) {
    std::stringstream said;
    said << std::ifstream(base + ".qemu").rdbuf();
    return fail(std::move(connected).error().within("QEMU did not start: " + said.str()));
  }
  TRY(machine->agent_.connect(base + ".agent", kMonitorTimeout));
  return machine;
}

Machine::~Machine() {
  kill();
}

MachineState Machine::state() {
  if (pid_ > 0) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) pid_ = -1;
  }
  if (pid_ < 0) return MachineState::off;
  if (!agent_up_) agent_up_ = agent_.read_line(milliseconds{0}).has_value();
  return agent_up_ ? MachineState::up : MachineState::booting;
}

Ok Machine::plug(const std::string& volume_id, const std::string& path) {
  int slot = 1;
  while (slot <= kSlots && std::any_of(slots_.begin(), slots_.end(),
                                       [&](const auto& used) { return used.second == slot; }))
    ++slot;
  if (slot > kSlots)
    return fail(ErrorKind::refused, "the machine has no free slot for " + volume_id);
  const std::string node = serial_of(volume_id);
  std::error_code not_there;  // which QEMU says in its own words
  const bool served = std::filesystem::is_socket(path, not_there);
  const json file = served ? json{{"driver", "nbd"}, {"server", {{"type", "unix"}, {"path", path}}}}
                           : json{{"driver", "file"}, {"filename", path}, {"aio", "io_uring"}};
  // cache.direct and io_uring: the default thread pool caps at about 64 requests in flight. mdts=6:
  // 256 KiB, as on EBS.
  TRY(qmp_.execute(
      "blockdev-add",
      {{"driver", "raw"}, {"node-name", node}, {"cache", {{"direct", true}}}, {"file", file}}));
  TRY(qmp_.execute("device_add", {{"driver", "nvme"},
                                  {"id", "device-" + node},
                                  {"drive", node},
                                  {"bus", "slot" + std::to_string(slot)},
                                  {"serial", node},
                                  {"mdts", 6}}));
  slots_[volume_id] = slot;
  return {};
}

Ok Machine::unplug(const std::string& volume_id) {
  const std::string node = serial_of(volume_id);
  TRY(qmp_.execute("device_del", {{"id", "device-" + node}}));
  TRY(qmp_.wait_device_deleted("device-" + node, kUnplugTimeout));
  TRY(qmp_.execute("blockdev-del", {{"node-name", node}}));
  slots_.erase(volume_id);
  return {};
}

bool Machine::holds(const std::string& volume_id) {
  if (state() == MachineState::off) return false;
  if (state() != MachineState::up) return true;
  if (!open_question_) {
    open_question_ = {volume_id, std::to_string(++questions_)};
    if (!agent_.send_line("mounted " + serial_of(volume_id) + " " + open_question_->number))
      return true;
  }
  const Question asked = *open_question_;
  const auto deadline = Clock::now() + kAgentTimeout;
  while (const auto answer = agent_.read_line(std::max(
             std::chrono::duration_cast<milliseconds>(deadline - Clock::now()), milliseconds{0}))) {
    if (!answer->ends_with(" " + asked.number)) continue;
    open_question_.reset();
    return asked.volume_id != volume_id || !answer->starts_with("no");
  }
  return true;
}

void Machine::request_shutdown() {
  if (state() == MachineState::up && agent_.send_line("poweroff")) return;
  kill();
}

void Machine::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
}

}  // namespace warmroot::sim
