// What warming costs and where it stands, for Prometheus. Pure.
#pragma once

#include <string>

#include "bootstrap/status.hpp"

namespace warmroot::bootstrap {

/// Every metric once, labelled with deployment, pool, node, volume and instance; times in seconds,
/// sizes in bytes. Source: Prometheus' text-based format, version 0.0.4, as the node exporter's
/// textfile collector reads it.
std::string metrics_text(const Status& status);

}  // namespace warmroot::bootstrap
