// The operator's side of the region's server: /_control/. Unsigned and for loopback only;
// `warmroot-sim interrupt`, `crash`, `power-off` and `state` call it, and tests inject faults through it.
#pragma once

#include <functional>
#include <string>

#include "tests/sim/event_bus.hpp"
#include "tests/sim/query.hpp"
#include "tests/sim/region.hpp"

namespace warmroot::sim {

struct ControlReply {
  int status = 200;
  std::string body;  ///< JSON
};

/// What can be controlled.
struct Controlled {
  Region& region;
  QueryFront& front;
  Sqs& sqs;
  EventBus& events;
};

/// Answers one request; `parameter` gives a query parameter or an empty text. GET /_control/state
/// shows the world; the rest is POST:
///   interrupt?instance=                      spot notice, reclaim after the notice time
///   crash?instance=[&mode=impaired]          power cut; with mode the API keeps saying running
///   power_off?instance=                      the guest powers itself off, as its user-data may
///   end?instance=, stop?instance=            terminated at once; stopped, with its attachments
///   zone?zone=&state=impaired|available      a whole zone
///   volume?volume=                           its status check fails
///   vanish?volume=                           detached by force, whatever the guest does with it
///   fault?kind=[&action=&count=&after=&share=&delay_ms=&for_s=&containing=&status=&code=&message=]
///   knob?name=&value=                        of RegionKnobs; lists are separated by commas
///   replicas?ages_ms=0,3000[&visibility_ms=&seed=]   servers that are behind; none: all know all
///   neighbour?share=                         of the throttle's buckets
///   capacity?type=&zone=&count=              "*": any; -1: unlimited
///   price?type=&zone=[&usd=]                 spot price of a pool; without usd the usual one
///   offering?type=&zone=&state=missing|offered
///   quota?market=spot|on-demand&class=g&vcpus=   -1: unlimited
///   deny?right=ec2:RunInstances&by=implicit|policy|organisation|nobody
///   group?group=&image=&type=[&subnet=&zone=&key=&spot=1&user_data=&tags=key:value,..]
///                                            an instance as an Auto Scaling group launches it
///   rebalance?instance=                      the hint that an interruption may come
///   queue?name=                              makes an SQS queue and sends the events of instances
///   to it events?[missing=&doubled=&late_ms=&spread_ms=]   what goes wrong with events on their
///   way
ControlReply control(const Controlled& controlled, const std::string& method,
                     const std::string& path,
                     const std::function<std::string(const std::string&)>& parameter);

}  // namespace warmroot::sim
