// What the manager shows of itself while it serves: the /status document and the /metrics text,
// made from the last tick and from what bootstraps reported. Pure. Called by the HTTP server's
// threads through the daemon.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "manager/core/model.hpp"
#include "manager/reports_board.hpp"

namespace warmroot::manager {

/// Something that happened, for the history.
struct StatusEvent {
  Instant at{};
  std::string node;
  std::string text;
};

/// The last tick as the pages need it.
struct TickView {
  std::string deployment;
  std::string region;
  Instant updated{};
  core::Plan plan;
  std::map<std::string, std::string> instance_states;  ///< EC2's words, by instance id
  std::vector<StatusEvent> history;                    ///< oldest first
  std::map<std::string, std::uint64_t> calls;          ///< made since start, by "action outcome"
  std::map<std::string, int> events;  ///< of EC2, from the queue since start, by what they were
  bool listens = false;               ///< to an event queue
  bool verifies_identity = false;     ///< of instances at hello
  std::map<std::string, std::uint64_t> refusals;  ///< by RefusalCounts' words
  std::uint64_t keys_replaced = 0;
};

using Reports = std::map<std::string, ReportBoard::Entry>;

std::string status_json(const TickView& view, const Reports& reports);
/// Prometheus text format 0.0.4.
std::string metrics_text(const TickView& view, const Reports& reports);

}  // namespace warmroot::manager
