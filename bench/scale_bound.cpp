// See the header and the derivation in README.md.
#include "bench/scale_bound.hpp"

#include <algorithm>
#include <functional>

namespace warmroot::bench {

namespace {

double least(const std::vector<NodeWaits>& nodes, double NodeWaits::*wait) {
  double value = nodes.empty() ? 0 : nodes.front().*wait;
  for (const auto& node : nodes) value = std::min(value, node.*wait);
  return value;
}

template <typename Tail>
std::vector<double> tails(const std::vector<NodeWaits>& nodes, Tail tail) {
  std::vector<double> out;
  for (const auto& node : nodes) out.push_back(tail(node));
  return out;
}

template <typename Path>
double longest(const std::vector<NodeWaits>& nodes, Path path) {
  double value = 0;
  for (const auto& node : nodes) value = std::max(value, path(node));
  return value;
}

double until_created(const NodeWaits& node) {
  return node.create_call_s + node.creating_s;
}
double until_running(const NodeWaits& node) {
  return node.run_call_s + node.pending_s;
}
double until_attached(const NodeWaits& node) {
  return node.attach_call_s + node.attaching_s;
}

}  // namespace

double token_at(const Bucket& bucket, int k, double first_s) {
  return first_s + std::max(0.0, (k - bucket.capacity) / bucket.refill_per_s);
}

double ordered_bound(const Bucket& bucket, const std::vector<double>& tails_s, double first_s) {
  double bound = 0;
  for (std::size_t i = 0; i < tails_s.size(); ++i)
    bound = std::max(bound, token_at(bucket, static_cast<int>(i) + 1, first_s) + tails_s[i]);
  return bound;
}

double bucket_bound(const Bucket& bucket, std::vector<double> tails_s, double first_s) {
  std::sort(tails_s.begin(), tails_s.end(), std::greater<>());
  return ordered_bound(bucket, tails_s, first_s);
}

double bound_blind(const std::vector<NodeWaits>& nodes) {
  auto ordered = nodes;
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& left, const auto& right) {
    return left.attached_as < right.attached_as;
  });
  const double bucket =
      ordered_bound(kAttachCalls, tails(ordered, [](const auto& node) { return node.attaching_s; }),
                    least(nodes, &NodeWaits::attach_call_s));
  return std::max(bucket, longest(nodes, until_attached));
}

double bound_running(const std::vector<NodeWaits>& nodes) {
  const double bucket =
      bucket_bound(kAttachCalls, tails(nodes, [](const auto& node) { return node.attaching_s; }),
                   least(nodes, &NodeWaits::attach_call_s));
  return std::max(bucket, longest(nodes, until_attached));
}

double bound_created(const std::vector<NodeWaits>& nodes) {
  const double creates = bucket_bound(
      kCreateCalls,
      tails(nodes, [](const auto& node) { return node.creating_s + until_attached(node); }),
      least(nodes, &NodeWaits::create_call_s));
  const double launches = bucket_bound(
      kRunInstances,
      tails(nodes, [](const auto& node) { return node.pending_s + until_attached(node); }),
      least(nodes, &NodeWaits::run_call_s));
  double ready = 0;
  if (!nodes.empty()) {
    const auto of = [](const auto& node) {
      return std::max(until_created(node), until_running(node));
    };
    ready = of(nodes.front());
    for (const auto& node : nodes) ready = std::min(ready, of(node));
  }
  const double attaches =
      bucket_bound(kAttachCalls, tails(nodes, [](const auto& node) { return node.attaching_s; }),
                   ready + least(nodes, &NodeWaits::attach_call_s));
  const double path = longest(nodes, [](const auto& node) {
    return std::max(until_created(node), until_running(node)) + until_attached(node);
  });
  return std::max({creates, launches, attaches, path});
}

double bound_launched(const std::vector<NodeWaits>& nodes) {
  const double launches =
      bucket_bound(kRunInstances, tails(nodes, [](const auto& node) { return node.pending_s; }),
                   least(nodes, &NodeWaits::run_call_s));
  return std::max(launches, longest(nodes, until_running));
}

double bound_launch(const std::vector<NodeWaits>& nodes) {
  // Both ways take an instance from the same bucket, and the second needs nothing else: no mixture
  // beats it.
  return std::min(bound_created(nodes), bound_launched(nodes));
}

}  // namespace warmroot::bench
