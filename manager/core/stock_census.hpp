// The part of the census about volumes of no node: spares and golden ones. Called by census.cpp.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Enters a volume that EC2 shows into the pool's stock, and adopts it when it has no record.
void count_shown_stock(Draft& draft, PoolDraft& pool, const aws::Volume& volume, VolumeRole role);

}  // namespace warmroot::core
