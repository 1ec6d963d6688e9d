// An instance whose init tells the bootstrap to end, with jobs that a systemctl of the test's
// tells: the fixture of boot_reboot_test and boot_unit_stop_test.
#pragma once

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "bootstrap/reboot.hpp"
#include "bootstrap/supervise.hpp"
#include "tests/boot_up.hpp"

namespace warmroot::bootstrap {

inline constexpr char kJobs[] = "/run/jobs";
inline constexpr char kReboots[] =
    "7 systemd-reboot.service start waiting\n8 reboot.target start waiting\n";
inline constexpr char kPowersOff[] = "8 poweroff.target start waiting\n";
inline constexpr char kSoftReboots[] =
    "7 shutdown.target start waiting\n8 soft-reboot.target start waiting\n";

/// What the manager was told.
struct Heard {
  int hellos = 0, forged = 0;
  bool in_turn = true;             ///< each number is greater than the one before
  std::vector<std::string> words;  ///< stage and reason of each report
};

class BootReboot : public BootUp {
 protected:
  static void SetUpTestSuite() {
    BootUp::SetUpTestSuite();
    if (!reason_.empty()) return;
    const auto made = shell(R"(
      mkdir -p /run/systemd/system
      printf '#!/bin/sh\n[ "$*" = "list-jobs --no-legend --plain" ] && exec cat /run/jobs\nexit 1\n' >/run/systemctl
      chmod 755 /run/systemctl
      mount --bind /run/systemctl /usr/bin/systemctl)");
    if (!made)
      reason_ = "no systemctl in whose place another one could be: " + made.error().message();
  }

  void SetUp() override {
    BootUp::SetUp();
    if (!reason_.empty()) return;
    ASSERT_TRUE(shell("rm -rf /run/heard /run/jobs /run/answers; mkdir /run/answers"));
  }

  void serve(const char* ticket = kTicketOfManager) {
    ASSERT_EQ(run_up(ticket), "");
    start_sshd();
    ASSERT_TRUE(comes_ready()) << status().message;
  }

  /// As by the process that began the daemon, which init has told. nullptr: systemctl fails.
  static void init_ends_it(const char* jobs) {
    ::unlink(kJobs);
    if (jobs != nullptr) {
      ASSERT_TRUE(write_in_place(kJobs, jobs));
    }
    sigval value{};
    value.sival_int = kFromInit;
    ASSERT_EQ(::sigqueue(running_daemon(), SIGTERM, value), 0);
  }

  static Heard heard() {
    Heard all;
    std::uint64_t last = 0;
    std::istringstream lines(read_file(kHeard, kMaxStatus).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      if (line == "hello") {
        ++all.hellos;
        continue;
      }
      std::istringstream words(line);
      std::uint64_t number = 0;
      std::string proof, stage, reason;
      words >> number >> proof >> stage >> reason;
      if (proof != "signed") ++all.forged;
      all.in_turn = all.in_turn && number > last;
      last = number;
      all.words.push_back(reason.empty() ? stage : stage + " " + reason);
    }
    return all;
  }

  static mode_t mode_of(const char* path) {
    struct stat facts {};
    return ::stat(path, &facts) == 0 ? facts.st_mode & 07777U : 0;
  }
};

}  // namespace warmroot::bootstrap
