// Rule 4: instances for the nodes that have none coming. One call for several nodes of one pool and
// zone, because the call has the smallest bucket of all; which types, by offers; how many, by
// launch_limits; the calls themselves by launch_calls.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Marks the nodes that an instance on its way will serve (NodeDraft::covered); asks for nothing.
void count_coming(Draft& draft);

/// Also marks as covered those it launches for.
void launch(Draft& draft);

/// Instances of the pool in `zone` that may still take a node, those asked for included.
int instances_coming(Draft& draft, const PoolDraft& pool, const std::string& zone);
/// Nodes of `zone` that are wanted and have neither a serving lease nor a reservation.
int nodes_without_instance(Draft& draft, const PoolDraft& pool, const std::string& zone);
/// True for an instance of the pool that may still take a node: up or coming up, no lease, not on
/// its way out.
bool unassigned(Draft& draft, const InstanceDraft& instance);

}  // namespace warmroot::core
