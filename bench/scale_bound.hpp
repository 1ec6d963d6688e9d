// The least time in which EC2's throttles let N nodes be served, for waits that are known
// beforehand: what a manager with perfect foresight could not beat. Pure arithmetic; the derivation
// is in README.md. Used by scale_bench to say what a run lost.
#pragma once

#include <vector>

namespace warmroot::bench {

/// A token bucket of EC2's, full when the run begins.
struct Bucket {
  double capacity = 0;
  double refill_per_s = 0;
};

/// EC2's own figures (developer guide, "Request throttling for the Amazon EC2 API").
inline constexpr Bucket kAttachCalls{50, 5};
inline constexpr Bucket kCreateCalls{100, 5};
inline constexpr Bucket kRunCalls{5, 2};
inline constexpr Bucket kRunInstances{1000, 2};  ///< tokens are instances

/// When the k-th token (from 1) can be taken at the earliest by a caller that takes each as soon as
/// it is there and takes the first at `first_s`.
double token_at(const Bucket& bucket, int k, double first_s = 0);

/// max(token_at(k) + tail of the k-th), in the order given.
double ordered_bound(const Bucket& bucket, const std::vector<double>& tails_s, double first_s = 0);

/// The least over all orders of max(token_at(k) + tail of the k-th): the longest tails go first.
double bucket_bound(const Bucket& bucket, std::vector<double> tails_s, double first_s = 0);

/// What EC2 and the network drew for one node, seconds. A node without a step has 0 there.
struct NodeWaits {
  double create_call_s = 0;  ///< CreateVolume sent until executed
  double creating_s = 0;     ///< until available
  double run_call_s = 0;     ///< RunInstances sent until executed
  double pending_s = 0;      ///< until running
  double attach_call_s = 0;  ///< AttachVolume sent until executed
  double attaching_s = 0;    ///< until attached
  int attached_as = 0;       ///< how many attaches EC2 accepted before its own
};

/// Volumes are free and instances run: one AttachVolume a node.
double bound_running(const std::vector<NodeWaits>& nodes);

/// The same without knowing a wait before it is over: the tokens go to the nodes in the order in
/// which they were attached.
double bound_blind(const std::vector<NodeWaits>& nodes);

/// From nothing, each node by CreateVolume, RunInstances and AttachVolume.
double bound_created(const std::vector<NodeWaits>& nodes);

/// From nothing, the volume made by the launch itself: RunInstances alone.
double bound_launched(const std::vector<NodeWaits>& nodes);

/// From nothing, by whichever of the two is faster, mixed as is best.
double bound_launch(const std::vector<NodeWaits>& nodes);

}  // namespace warmroot::bench
