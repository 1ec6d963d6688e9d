// The Date header of HTTP answers, by which a wrong clock is noticed. Pure.
#pragma once

#include <optional>
#include <string>

#include "bootstrap/base/units.hpp"

namespace warmroot::aws {

/// The instant of an HTTP Date header ("Fri, 02 Jan 2026 03:04:05 GMT"); nullopt when malformed.
std::optional<Instant> parse_http_date(const std::string& text);

}  // namespace warmroot::aws
