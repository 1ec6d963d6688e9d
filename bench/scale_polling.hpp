// How people script it without a manager: each node runs its own loop of AWS CLI calls, waits by
// asking again every few seconds, and leaves throttles to the SDK's retries. Against the same
// buckets, to compare with; the waits are drawn by the same laws, but are its own.
#pragma once

#include <vector>

#include "bench/scale_world.hpp"

namespace warmroot::bench {

struct PollingSight {
  std::vector<NodeWaits> waits;  ///< of the nodes served
  double done_s = 0;
  int served = 0;
  int mutating_calls = 0;
  int describing_calls = 0;
  int attach_calls = 0;                          ///< throttled ones among them
  int attached = 0;                              ///< those that EC2 took
  double first_attach_s = 0, last_attach_s = 0;  ///< of those
  int throttled_calls = 0;
};

PollingSight run_polling(const CaseOptions& options);

}  // namespace warmroot::bench
