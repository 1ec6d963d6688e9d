// The operator's side of the region's server: /_control/. Unsigned and for loopback only;
// `warmroot-sim interrupt`, `crash` and `state` call it, and tests inject faults through it.
#pragma once

#include <functional>
#include <string>

#include "tests/sim/query.hpp"
#include "tests/sim/region.hpp"

namespace warmroot::sim {

struct ControlReply {
  int status = 200;
  std::string body;  ///< JSON
};

/// Answers one request; `parameter` gives a query parameter or an empty text.
///   POST /_control/interrupt?instance=    spot notice, reclaim after the notice time
///   POST /_control/crash?instance=[&mode=impaired]   power cut; with mode the API keeps saying
///   running GET  /_control/state POST /_control/fault?action=&kind=&count=&after=  kind as
///   FaultKind POST /_control/capacity?type=&zone=&count=        -1: unlimited
ControlReply control(Region& region, QueryFront& front, const std::string& method,
                     const std::string& path,
                     const std::function<std::string(const std::string&)>& parameter);

}  // namespace warmroot::sim
