// The part of the census about volumes of no node: spares and golden ones. Called by census.cpp.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// A volume keeps the encryption that it was made with, and so does a copy of it.
bool is_encrypted_as_asked(const VolumeSpec& spec, const aws::Volume& volume);

/// Enters a volume that EC2 shows into the pool's stock, and adopts it when it has no record.
void count_shown_stock(Draft& draft, PoolDraft& pool, const aws::Volume& volume, VolumeRole role);

}  // namespace warmroot::core
