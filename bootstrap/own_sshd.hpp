// The volume's own sshd as a process of the base, started in the volume's root.
#pragma once

#include "bootstrap/volume_sshd.hpp"

namespace warmroot::bootstrap {

/// A process of the base's: those that it let in outlive it.
class OwnSshd : public VolumeSshd {
 public:
  OwnSshd() = default;
  ~OwnSshd() override { end(std::chrono::seconds(2)); }
  OwnSshd(const OwnSshd&) = delete;
  OwnSshd& operator=(const OwnSshd&) = delete;

  Ok check_possible(const RootDirectory&) const override { return {}; }
  Ok start(const RootDirectory& root, const OwnSshdWishes& wishes, int log) override;
  std::chrono::milliseconds start_limit() const override { return std::chrono::seconds(90); }
  std::chrono::milliseconds start_look() const override { return std::chrono::milliseconds(10); }
  std::string describe() const override;
  std::optional<std::string> how_it_ended() override;
  bool wants_restart() const override { return false; }
  UniqueFd listener(IpFamily family) override;
  bool holds_sessions() const override { return false; }
  bool runs(pid_t process) const override { return process == pid_; }
  bool end(std::chrono::milliseconds limit) override;

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
  std::optional<std::string> ended_;
};

}  // namespace warmroot::bootstrap
