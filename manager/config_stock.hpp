// The tables [pool.stock], [pool.rollout], [pool.warm] and [pool.session] of the spec: what is kept
// beyond the nodes' volumes, what a new source does to them, how they are read, and how people get
// into them. Called by config.cpp.
#pragma once

#include <optional>

#include "manager/config_table.hpp"
#include "manager/core/spec.hpp"

namespace warmroot::manager {

/// `max_nodes`: no pool keeps more spares in a zone than it could have nodes.
core::StockSpec read_stock(TableReader table, int max_nodes);

core::RolloutSpec read_rollout(TableReader table, int max_nodes);

struct WarmTable {
  core::WarmSpec spec;
  bool block_list = true;  ///< EBS is asked which blocks of the snapshot hold data
  int max_mib_s = 0;       ///< of what the warmer brings in; 0: whatever the volume gives
};
WarmTable read_warm(TableReader table);

struct SessionTable {
  core::SessionSpec spec;
  std::optional<int> login_wait_s;  ///< of sshd for the volume
};
SessionTable read_session(TableReader table);

}  // namespace warmroot::manager
