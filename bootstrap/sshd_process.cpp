#include "bootstrap/sshd_process.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "bootstrap/beside.hpp"
#include "bootstrap/loopback_port.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::chrono::milliseconds kPolite{2000};

}  // namespace

std::unique_ptr<SshdProcess> SshdProcess::of_volume() {
  return std::unique_ptr<SshdProcess>(
      new SshdProcess("the volume's own sshd", "sshd: the volume's own", "", {}));
}

std::unique_ptr<SshdProcess> SshdProcess::of_base(std::string program,
                                                  std::vector<std::string> options) {
  return std::unique_ptr<SshdProcess>(new SshdProcess("the second sshd of the base",
                                                      "chroot: a second sshd of the base",
                                                      std::move(program), std::move(options)));
}

Ok SshdProcess::start(const RootDirectory& root, const OwnSshdWishes& wishes, int log) {
  const bool of_base = !base_program_.empty();
  TRY_ASSIGN(pid_, start_beside({of_base ? second_sshd_command(base_program_, wishes, base_options_)
                                         : own_sshd_command(wishes),
                                 {},
                                 of_base ? -1 : root.fd(),
                                 log,
                                 {}}));
  port_ = wishes.port;
  ended_.reset();
  return {};
}

std::string SshdProcess::describe() const {
  return title_ + " (process " + std::to_string(pid_) + ")";
}

std::optional<std::string> SshdProcess::how_it_ended() {
  int status = 0;
  if (!ended_ && pid_ != 0 && ::waitpid(pid_, &status, WNOHANG) == pid_)
    ended_ = name_ + " " + end_in_words(status);
  return ended_;
}

UniqueFd SshdProcess::listener(IpFamily family) {
  return pid_ == 0 || ended_ ? UniqueFd() : listener_of(pid_, family, port_);
}

bool SshdProcess::end(std::chrono::milliseconds limit) {
  if (pid_ == 0) return false;
  if (!how_it_ended()) {
    ::kill(pid_, SIGTERM);
    // Kills what has not ended by then.
    if (!wait_child(pid_, std::min(limit, kPolite))) ended_ = name_ + " was killed";
  }
  pid_ = 0;
  return true;
}

}  // namespace warmroot::bootstrap
