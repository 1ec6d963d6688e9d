// An sshd as a process of the base's: the volume's own, started in the volume's root, or a second
// one of the base's. Those that it let in outlive it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/steered_sshd.hpp"

namespace warmroot::bootstrap {

class SshdProcess : public SteeredSshd {
 public:
  /// The volume's own, in its root.
  static std::unique_ptr<SshdProcess> of_volume();
  /// A second one of the base's: `program`, with the base's configuration and these options. The
  /// volume is nothing to it.
  static std::unique_ptr<SshdProcess> of_base(std::string program,
                                              std::vector<std::string> options);
  ~SshdProcess() override { end(std::chrono::seconds(2)); }
  SshdProcess(const SshdProcess&) = delete;
  SshdProcess& operator=(const SshdProcess&) = delete;

  std::string name() const override { return name_; }
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
  SshdProcess(std::string name, std::string title, std::string base_program,
              std::vector<std::string> base_options)
      : name_(std::move(name)),
        title_(std::move(title)),
        base_program_(std::move(base_program)),
        base_options_(std::move(base_options)) {}

  const std::string name_;          ///< in a sentence
  const std::string title_;         ///< in `status`
  const std::string base_program_;  ///< empty: the volume's
  const std::vector<std::string> base_options_;
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
  std::optional<std::string> ended_;
};

}  // namespace warmroot::bootstrap
