// The `warm` object of the status document. The only file of the warmer that includes a JSON
// library is warm_progress_json.cpp; this header needs its forward declaration alone.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bootstrap/warm/warm_progress.hpp"

namespace warmroot::warm {

/// Keys: state, needed_blocks, device_blocks, present_blocks, present_device_blocks, blocks_read,
/// bytes_read, warmth, device_warmth, elapsed_ms, eta_ms and hot_ms (numbers or null), engine,
/// depth, errors, resumed_blocks, hot_blocks, hot_present, file_blocks, needed_source, first_touch
/// and warm_reads {count, p50_us, p90_us, p99_us, max_us, bucket_error}; `note` only when there is
/// one.
nlohmann::json to_json(const WarmProgress& progress);

}  // namespace warmroot::warm
