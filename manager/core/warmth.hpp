// How warm volumes are, as nodes report it and EC2 says of those that no node has had: kept with
// the volume, told to people, and what chooses among spares.
#pragma once

#include <optional>
#include <string>

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Reports of a volume that differ by less than this from what is known of it are not written down.
inline constexpr int kWarmthStep = 10;

/// Records what nodes say of the volumes that they hold.
void keep_warmth(Draft& draft);

/// Percent of the volume's needed blocks that it holds: 100 where EC2 calls it read in full, else
/// what a node reported last. Absent: nobody has said.
std::optional<int> warmth_of(const Draft& draft, const std::string& volume_id);

}  // namespace warmroot::core
