// Rule 2: leases follow what EC2 shows, and what went wrong is undone: stuck attaches, volumes in
// error, leases of instances that are dead, stopped or have given their volume back.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// The instance says that it has given the lease's volume back: by its latest word; by what it said
/// before a restart only while it has said nothing since, and of no attachment that is younger.
bool has_released(const Draft& draft, const Lease& lease);

/// Brings every lease into the state that attachments and reports prove, opens leases for
/// attachments without one, and ends those whose attachment is over.
void settle_leases(Draft& draft);

/// Quarantines volumes in error and detaches where nothing can be lost by it.
void heal(Draft& draft);

/// Sets DeleteOnTermination back of volumes that EC2 would delete with this instance and that no
/// lease looks after: it cannot be ended before.
void keep_volumes_of(Draft& draft, const InstanceDraft& instance);

}  // namespace warmroot::core
