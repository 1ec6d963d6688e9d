// Rule 2: leases follow what EC2 shows, and what went wrong is undone: stuck attaches, volumes in
// error, leases of instances that are dead, stopped or have given their volume back.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Brings every lease into the state that attachments and reports prove, opens leases for
/// attachments without one, and ends those whose attachment is over.
void settle_leases(Draft& draft);

/// Quarantines volumes in error and detaches where nothing can be lost by it.
void heal(Draft& draft);

/// Sets DeleteOnTermination back of volumes that EC2 would delete with this instance and that no
/// lease looks after: it cannot be ended before.
void keep_volumes_of(Draft& draft, const InstanceDraft& instance);

}  // namespace warmroot::core
