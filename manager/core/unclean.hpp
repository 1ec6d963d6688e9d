// Volumes that were not given back as they should be. One that a node could not repair is set
// aside from the report on, before its tag shows; one whose last lease ended without a clean
// release gets a snapshot before the next, where the spec asks for it.
#pragma once

#include <string>

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// For so long a node waits for the snapshot of its volume; then it is served without one.
inline constexpr Milliseconds kSnapshotPatience{60'000};

/// Of a snapshot: who left its volume uncleanly.
inline constexpr const char* kTagUnclean = "warmroot:unclean";

/// Before the census: whose file system no node can repair, by the ledger and by what nodes say.
void find_beyond_repair(Draft& draft);
/// The tag and the note of one of those.
void set_aside(Draft& draft, const aws::Volume& volume, const std::string& pool,
               const std::string& node);

/// The instance says that the volume is beyond repair, and it is not set aside yet.
bool awaits_setting_aside(const Draft& draft, const NodeReport& report, const aws::Volume& volume);

/// Ends a lease that held its volume, and remembers it unless its instance said that it has
/// unmounted the volume (`clean`).
void end_lease(Draft& draft, const Lease& lease, bool clean, const std::string& why);
/// True while the node's volume is not to be attached for want of its snapshot, which is asked for.
bool awaits_snapshot(Draft& draft, const PoolDraft& pool, const NodeDraft& node);
/// Its attach is asked for, with a snapshot or without.
void forget_unclean(Draft& draft, const PoolDraft& pool, const NodeDraft& node);

}  // namespace warmroot::core
