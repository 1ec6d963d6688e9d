// The `warm` object of the status document. The only file of the warmer that includes a JSON
// library is warm_progress_json.cpp; this header needs its forward declaration alone.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bootstrap/warm/warm_progress.hpp"

namespace warmroot::warm {

/// Keys: state, needed_blocks, device_blocks, present_blocks, blocks_read, bytes_read, warmth,
/// elapsed_ms, eta_ms (number or null), engine, depth, errors, resumed_blocks, needed_source,
/// first_touch and warm_reads {count, p50_us, p90_us, p99_us, max_us, bucket_error}; `note` only
/// when there is one.
nlohmann::json to_json(const WarmProgress& progress);

}  // namespace warmroot::warm
