// The keys of [pool.launch] about money, markets and limits. Called by config.cpp, which reads the
// rest of the table.
#pragma once

#include <string>
#include <vector>

#include "manager/config_table.hpp"
#include "manager/core/spec.hpp"

namespace warmroot::manager {

/// Reads the keys into `spec`, whose types and max_price were read before. `pool`: with zones and
/// stock read; absent: the defaults' own table, of which only the form is checked.
void read_market(TableReader& table, core::LaunchSpec& spec, std::vector<Mistake>& mistakes,
                 const core::PoolSpec* pool);

}  // namespace warmroot::manager
