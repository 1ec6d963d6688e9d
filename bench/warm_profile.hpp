// A profile of bench/profiles: the law of the modelled volume as TOML. Called by warm_bench.
#pragma once

#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "tests/sim/volume_model.hpp"

namespace warmroot::bench {

/// The profile that `text` says; keys that it leaves out keep VolumeProfile's defaults. Errors:
/// misconfigured, with the line, for a key that does not exist, a value of another type or one out
/// of range.
Result<sim::VolumeProfile> parse_profile(std::string_view text);

}  // namespace warmroot::bench
