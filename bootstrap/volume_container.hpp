// The volume booted as a container by the base's systemd-nspawn: the volume's init runs its
// services and the sshd that sessions come in by. Sessions end with it.
#pragma once

#include "bootstrap/steered_sshd.hpp"

namespace warmroot::bootstrap {

class VolumeContainer : public SteeredSshd {
 public:
  VolumeContainer() = default;
  ~VolumeContainer() override;
  VolumeContainer(const VolumeContainer&) = delete;
  VolumeContainer& operator=(const VolumeContainer&) = delete;

  std::string name() const override { return "the volume's own sshd"; }
  Ok check_possible(const RootDirectory& root) const override;
  Ok start(const RootDirectory& root, const OwnSshdWishes& wishes, int log) override;
  /// A cold system's boot.
  std::chrono::milliseconds start_limit() const override { return std::chrono::minutes(5); }
  /// Each reads what all processes are.
  std::chrono::milliseconds start_look() const override { return std::chrono::milliseconds(100); }
  std::string describe() const override;
  std::optional<std::string> how_it_ended() override;
  bool wants_restart() const override { return rebooted_; }
  UniqueFd listener(IpFamily family) override;
  bool holds_sessions() const override { return true; }
  bool runs(pid_t process) const override;
  /// As by the power button.
  bool end(std::chrono::milliseconds limit) override;

 private:
  bool find_init();
  bool is_sshd(pid_t process) const;
  bool wait_for_nspawn(std::chrono::milliseconds limit);
  void kill_init();

  pid_t nspawn_ = 0;
  UniqueFd init_handle_;
  pid_t init_ = 0;    ///< the volume's, as the base counts; 0: not started yet
  std::string pids_;  ///< its namespace of processes
  pid_t sshd_ = 0;    ///< who listened last
  std::uint16_t port_ = 0;
  std::optional<std::string> resolv_conf_;  ///< resolv_conf_in_run's, of the first start
  std::optional<std::string> ended_;
  bool rebooted_ = false;  ///< that is how it ended
};

}  // namespace warmroot::bootstrap
