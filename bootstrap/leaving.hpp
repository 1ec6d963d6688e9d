// The end of a daemon: gives the volume back, for as long as that takes, tells the manager, and has
// people wait where the machine goes. A machine that reboots unmounts the volume and keeps it.
// Called by the daemon, on its main thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/ordered_work.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/launch_facts.hpp"
#include "bootstrap/report.hpp"
#include "bootstrap/status.hpp"
#include "bootstrap/stop_request.hpp"
#include "bootstrap/ticket.hpp"

namespace warmroot::bootstrap {

/// For people, of a volume that was taken away.
std::string disk_gone_sentence(const Assignment& assignment);

/// What leaving needs of the daemon, which outlives it.
struct LeavingInput {
  const Ticket& ticket;
  const LaunchFacts& launch;
  Assignment& assignment;
  StatusBook& book;
  StopRequest& stop;
  Reporter& reporter;
  OrderedWork& base_disk;               ///< what of the daemon writes there
  const std::atomic<bool>& init_waits;  ///< for this process to end
  std::function<void(Stage, const std::string& reason, const std::string& message)> enter_stage;
  /// Ends what of ours uses the volume; false when something has not ended in time.
  std::function<bool(Milliseconds limit)> stop_own_users;
};

class Leaving {
 public:
  explicit Leaving(LeavingInput input) : input_(std::move(input)) {}

  /// Until the volume was given back, and as end_reporting, or until it was unmounted for a reboot
  /// and the manager was told so, for some seconds at most. Requires: a stop was requested, and
  /// nobody else of the daemon leads sessions any more.
  Ok run();
  /// Until the manager has heard the last report, for some minutes at most, and then until init
  /// waits for this process; where it does already, for some seconds.
  Ok end_reporting();
  /// The next boot does not serve this volume without the manager's word. For before the manager is
  /// told that it is given back; nothing where there is no manager. A base's disk that does not
  /// answer is waited for a moment, and does it later.
  void keep_from_next_boot() const;

 private:
  bool give_back(const StopReason& reason);
  bool tell_of_reboot();
  void tell_of_release() const;
  void keep_key() const;
  void wait_for_base_disk() const;
  bool init_ends_machine() const;
  bool is_given_to_nobody() const;
  StopReason given_back_for() const;
  bool keeps_volume() const;
  bool machine_goes(const std::string& word) const;
  void let_onto_base_in_time();
  void look_whether_machine_stays(bool is_turned_away) const;
  Milliseconds time_for_last_reports() const;
  void stay_until_init_waits();

  const LeavingInput input_;
  /// New sessions are refused, although the volume is released: until then, by boottime_ms().
  std::optional<std::int64_t> turned_away_until_ms_;
};

}  // namespace warmroot::bootstrap
