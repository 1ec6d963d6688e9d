#include "bootstrap/own_unit.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "bootstrap/base/log.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/own_sshd_plan.hpp"

namespace warmroot::bootstrap {
namespace {

/// sd_booted(3): init is systemd where this is.
constexpr char kUnits[] = "/run/systemd/system";
/// What `up` takes in an emulated guest. The boothook gives up after 120 s.
constexpr std::chrono::milliseconds kLimit{std::chrono::seconds(90)};
/// What is only asked for.
constexpr std::chrono::milliseconds kAskLimit{std::chrono::seconds(10)};
constexpr std::chrono::milliseconds kUnitEndLimit{2000}, kUnitLook{50};
constexpr std::size_t kMaxEnvironment = 64 * 1024;
constexpr std::string_view kOwnWords = "warmroot-bootstrap: ";

/// The last line of what it printed.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.erase(0, text.rfind('\n') + 1);
  if (text.compare(0, kOwnWords.size(), kOwnWords) == 0) text.erase(0, kOwnWords.size());
  return text;
}

Ok write_unit_order() {
  for (const UnitFile& file : unit_order()) {
    const std::string path = std::string(kUnits) + "/" + file.path;
    TRY(make_directory(path.substr(0, path.rfind('/')), 0755));
    TRY(write_file_atomic(path, file.text, 0644));
  }
  return {};
}

/// systemd's words for a unit of that name, which is only asked for by us.
bool is_there_already(const Result<ProgramResult>& done) {
  return done && done->exit_status != 0 && done->exit_status != kFailedInUnit &&
         done->output.find("already") != std::string::npos;
}

}  // namespace

std::string systemd_run_program() {
  if (::access(kUnits, F_OK) != 0) return {};
  return first_executable({"/usr/bin/systemd-run", "/bin/systemd-run"});
}

std::string systemctl_program() {
  if (::access(kUnits, F_OK) != 0) return {};
  return first_executable({"/usr/bin/systemctl", "/bin/systemctl"});
}

Result<std::vector<std::string>> sshd_unit_options() {
  const std::string systemctl = systemctl_program();
  if (systemctl.empty()) return std::vector<std::string>();
  std::vector<std::string> environments;
  for (const char* file : {"/etc/default/ssh", "/etc/sysconfig/sshd"})
    environments.push_back(read_file(file, kMaxEnvironment).value_or(""));
  for (const char* unit : {"ssh.service", "sshd.service"})
    if (const auto said = run_program({systemctl, "cat", unit}, kAskLimit);
        said && said->exit_status == 0)
      return sshd_options_of_unit(said->output, environments);
  return std::vector<std::string>();
}

void have_logins_wait(unsigned seconds) {
  const std::string systemd_run = systemd_run_program();
  const std::string program = link_text("/proc/self/exe");
  if (seconds == 0 || systemd_run.empty() || program.empty()) return;
  const auto done = run_program(
      before_sshd(systemd_run, {program, "wait", "--seconds", std::to_string(seconds)}), kAskLimit);
  if (done && done->exit_status == 0) return;
  log_event(LogLevel::warning, "logins do not wait for the volume",
            {{"why", done ? last_line(done->output) : done.error().message()}});
}

std::optional<Ok> up_in_own_unit(const std::string& ticket_path) {
  const std::string systemd_run = systemd_run_program();
  const std::string program = link_text("/proc/self/exe");
  if (systemd_run.empty() || program.empty()) return std::nullopt;
  if (const Ok written = write_unit_order(); !written)
    log_event(LogLevel::warning, "order of units", {{"why", written.error().message()}});
  const auto command =
      in_own_unit(systemd_run, {program, "up", "--in-unit", "--ticket", ticket_path});
  auto done = run_program(command, kLimit);
  // systemd takes a moment to notice that an earlier one has ended.
  for (const std::int64_t limit = boottime_ms() + kUnitEndLimit.count();
       is_there_already(done) && boottime_ms() < limit; done = run_program(command, kLimit))
    std::this_thread::sleep_for(kUnitLook);
  if (done && done->exit_status == 0) return Ok{};
  if (done && done->exit_status == kFailedInUnit)
    return Ok{fail(ErrorKind::broken, last_line(done->output))};
  log_event(LogLevel::warning, "no unit of our own",
            {{"why", done ? last_line(done->output) : done.error().message()}});
  return std::nullopt;
}

}  // namespace warmroot::bootstrap
