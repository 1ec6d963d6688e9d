// Rule 3: running instances without a lease get the volumes of waiting nodes of their pool and
// zone; a node whose volume is still elsewhere reserves its successor.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

void lease(Draft& draft);
/// Attaches the node's volume to the instance, or reserves it while it is elsewhere.
void lease_to(Draft& draft, const PoolDraft& pool, const NodeDraft& node, InstanceDraft& instance);

/// The lease of a node on an instance that may go on serving it, or nullptr.
Lease* serving_lease(Draft& draft, const NodeDraft& node);
/// True when a lease's instance exists but is none of its pool's: somebody attached the volume
/// elsewhere.
bool instance_is_foreign(const Draft& draft, const Lease& lease);
/// The node's reservation, or nullptr.
Lease* waiting_lease(Draft& draft, const NodeDraft& node);

/// It has a volume of which nobody knows what it is for, and which may serve somebody: it gets no
/// second one, and is not ended as one too many.
bool holds_unknown_volume(const Draft& draft, const InstanceDraft& instance);
/// The same, and says so.
bool note_unknown_volume(Draft& draft, const InstanceDraft& instance);

/// The line in which idle instances wait for nodes: the longest running first, so that the choice
/// does not change between looks.
bool is_before_in_line(const InstanceDraft* left, const InstanceDraft* right);

}  // namespace warmroot::core
