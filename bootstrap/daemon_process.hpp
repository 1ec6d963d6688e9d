// The daemon's one class, for the two files that hold it: daemon.cpp has its life, and
// daemon_sessions.cpp the sessions that it lets into the volume.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/bounded_thread.hpp"
#include "bootstrap/base/ordered_work.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/held_volume.hpp"
#include "bootstrap/imds.hpp"
#include "bootstrap/leaving.hpp"
#include "bootstrap/release_plan.hpp"
#include "bootstrap/report.hpp"
#include "bootstrap/sshd_config.hpp"
#include "bootstrap/status.hpp"
#include "bootstrap/stop_request.hpp"
#include "bootstrap/ticket.hpp"
#include "bootstrap/warming.hpp"

namespace warmroot::bootstrap {

/// Everything after the fork.
class Daemon {
 public:
  Daemon(Ticket ticket, StatusBook& book, SshdFacts sshd, std::optional<Error> early_failure,
         std::optional<HeldRecord> held);

  /// Until the volume was released, or left to the next boot.
  Ok run();

  /// `since_ms`: when it was asked for, by boottime_ms().
  void ask_to_stop(ReleaseCause cause, const std::string& sentence,
                   const std::string& notice_time = {}, std::int64_t since_ms = boottime_ms());

  /// A shutdown, a reboot, or people who stop our unit. `again`: init has told so a process that is
  /// gone. What it answered when that one asked is the reason that was taken over with a release,
  /// and its jobs may be others by now.
  void hear_init(bool again);

 private:
  static constexpr std::chrono::milliseconds kTick{1000};
  /// How long a session root that sshd refuses can go unnoticed; the look costs some stat(2).
  static constexpr int kTicksPerServingCheck = 5;
  /// Between attempts to lead sessions back into a volume that they have left: somebody may break
  /// it again and again.
  static constexpr std::chrono::milliseconds kReturnEvery{60000};

  void enter(Stage stage, const std::string& reason, const std::string& message);
  void tell_people(const std::string& why) const;
  void failed(const std::string& message);
  bool give_back(const std::string& why);
  void hear(const Wishes& wishes);
  Ok ask_metadata();
  void tell_of_silence(const Error& why);
  void start_ticker();
  bool let_go_of_lost_disk();
  void check_serving();
  bool may_return() const;
  void lead_sessions_out(const Error& why);
  void lead_sessions_back();
  void tell_of_return();
  void tell_of_entry();
  void keep_bound();
  void ask_ebs();
  void start_watching();
  void look_for_hint(Imds& imds);
  Ok start_sessions();
  void expect_word();
  Ok resume_sessions();
  void sessions_open();
  void keep_served_volume();
  bool is_another_volume(const std::string& volume_id) const;
  std::string what_is_otherwise() const;
  std::vector<std::uint16_t> session_ports() const;
  static void follow_people(Entry& entry, const std::stop_token& token);
  static void make_other_host_keys(const std::string& volume_id, const std::stop_token& token);
  bool stop_own_users(std::chrono::milliseconds limit);
  void end_serving();

  const Ticket ticket_;
  StatusBook& book_;
  const SshdFacts sshd_;
  const std::optional<Error> early_failure_;
  StopRequest stop_;
  BringUpInput input_;
  Assignment assignment_;
  bool is_taken_over_ = false;  ///< it is from a daemon that was killed
  std::string served_disk_;     ///< written before serving_ is set
  dev_t served_root_ = 0;       ///< the same
  // the ticker's; the main thread's before a login has worked, but the first
  int ebs_silent_ = 0;               ///< attempts in a row
  std::string pause_, described_;    ///< of the entry, as they were told last
  bool sessions_left_ = false;       ///< the volume, which serves them no more
  std::int64_t next_return_ms_ = 0;  ///< by boottime_ms()
  /// Sessions were opened and the volume is not given back yet: it is the ticker's to look after.
  std::atomic<bool> serving_ = false;
  /// In the volume: the ticker may lead sessions.
  std::atomic<bool> login_worked_ = false;
  std::atomic<bool> init_waits_ = false;  ///< for this process to end, or it kills it
  bool leading_ = false;         ///< the ticker leads sessions out or back, or tells of them
  std::condition_variable led_;  ///< with mutex_: not any more
  std::mutex mutex_, stage_mutex_;
  std::optional<std::string> confirmed_, no_volume_;
  OrderedWork base_disk_;  ///< what outlives this boot is kept there, and it may not answer
  Imds identity_;          ///< the reporter's thread's own
  Reporter reporter_;
  Warming warming_{ticket_, book_, reporter_, [this](Stage stage) { enter(stage, "", ""); }};
  Leaving leaving_{LeavingInput{
      ticket_, input_.launch, assignment_, book_, stop_, reporter_, base_disk_, init_waits_,
      [this](Stage stage, const std::string& reason, const std::string& message) {
        enter(stage, reason, message);
      },
      [this](std::chrono::milliseconds limit) { return stop_own_users(limit); }}};
  // Last, so that they end first.
  std::jthread ticker_, watcher_;
  BoundedThread agents_, host_keys_, people_;
};

}  // namespace warmroot::bootstrap
