// The door for reports of a simulated manager: the real desk, board and keys in the ledger, under
// virtual time and without a socket. Used by the world; guests write the letters, with the
// bootstrap's own signature.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "manager/ledger_keys.hpp"
#include "manager/report_desk.hpp"
#include "tests/fleet_sim/guests.hpp"

namespace warmroot::fleet {

/// A signed report as it travels.
struct Letter {
  std::string instance_id;
  std::uint64_t sequence = 0;
  std::string signature;
  std::string body;
};

/// What a guest puts into its next letter; counts its number up.
Letter letter_of(Guest& guest, const core::NodeReport& report);

struct DoorSetup {
  std::function<Instant()> clock;   ///< of the process
  std::function<Instant()> steady;  ///< never set
  manager::AdmissionRules rules;
  bool believes_anybody = false;  ///< a planted bug: signatures are not looked at
};

class ReportDoor {
 public:
  ReportDoor(const manager::Ledger& ledger, DoorSetup setup);

  struct Reply {
    int status = 200;
    std::string key_hex{};  ///< of a hello
    bool drain = false;
    std::string volume_id{};  ///< that the instance may serve; empty: none is named
    bool no_volume = false;   ///< it is told that there is none for it
  };
  /// The board may wake its waiter: something else was said than the same instance said before.
  /// Asked first, because a wait that finds nothing costs more than a report.
  bool may_wake = false;

  /// `peer` is the address that it comes from.
  Reply hello(const std::string& body, const std::string& peer);
  Reply report(const Letter& letter);

  manager::ReportBoard board;

 private:
  struct Wishes {
    bool drain = false;
    std::string volume_id;
    bool no_volume = false;
  };
  DoorSetup setup_;
  manager::LedgerKeys keys_;
  manager::ReportDesk desk_;
  std::map<std::string, std::string> said_;  ///< the last body of each instance
  std::map<std::string, Wishes> wishes_;     ///< what answers say, by their text
};

}  // namespace warmroot::fleet
