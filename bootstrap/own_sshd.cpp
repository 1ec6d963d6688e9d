#include "bootstrap/own_sshd.hpp"

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

Ok OwnSshd::start(const RootDirectory& root, const OwnSshdWishes& wishes, int log) {
  TRY_ASSIGN(pid_, start_beside({own_sshd_command(wishes), {}, root.fd(), log, {}}));
  port_ = wishes.port;
  ended_.reset();
  return {};
}

std::string OwnSshd::describe() const {
  return "sshd: the volume's own (process " + std::to_string(pid_) + ")";
}

std::optional<std::string> OwnSshd::how_it_ended() {
  int status = 0;
  if (!ended_ && pid_ != 0 && ::waitpid(pid_, &status, WNOHANG) == pid_)
    ended_ = "the volume's own sshd " + end_in_words(status);
  return ended_;
}

UniqueFd OwnSshd::listener(IpFamily family) {
  return pid_ == 0 || ended_ ? UniqueFd() : listener_of(pid_, family, port_);
}

bool OwnSshd::end(std::chrono::milliseconds limit) {
  if (pid_ == 0) return false;
  if (!how_it_ended()) {
    ::kill(pid_, SIGTERM);
    // Kills what has not ended by then.
    if (!wait_child(pid_, std::min(limit, kPolite))) ended_ = "the volume's own sshd was killed";
  }
  pid_ = 0;
  return true;
}

}  // namespace warmroot::bootstrap
