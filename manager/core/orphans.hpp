// Volumes that carry our deployment's tag and that no node, stock or rollout of the spec has a use
// for. `warmroot reap` lists them and, when told so, orders their deletion.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "manager/core/model.hpp"

namespace warmroot::core {

struct Orphan {
  std::string volume_id;
  std::string pool;  ///< by its tag
  std::string zone;
  int size_gib = 0;
  std::string why;               ///< "pool old is not in the spec"
  std::optional<Instant> since;  ///< the first look that saw it so; absent: only this one did
  bool maybe_used = true;        ///< may hold data of sessions
};

/// The key of the watch that counts since when a volume is without use.
std::string orphan_key(const std::string& volume_id);

/// From a plan made of the same arguments; oldest first. Attached, leased and quarantined volumes
/// are never among them.
std::vector<Orphan> find_orphans(const Desired& desired, const LedgerView& ledger,
                                 const Plan& plan);

}  // namespace warmroot::core
