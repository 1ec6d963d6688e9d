// EventBridge of the simulated region: what happens to instances becomes envelopes in a queue, as a
// rule with an SQS target would put them there. Best effort as EventBridge's events of EC2 are
// (user guide): with knobs they are missing, late, doubled or out of order.
#pragma once

#include <random>
#include <string>

#include "tests/sim/sqs.hpp"

namespace warmroot::sim {

/// Off by default: every event comes at once, one time.
struct EventKnobs {
  double missing = 0;      ///< share of events that never come
  double doubled = 0;      ///< share of events that come twice, under one id
  Milliseconds late{0};    ///< added to every event's way
  Milliseconds spread{0};  ///< up to so much more, drawn for each: this puts them out of order
};

class EventBus {
 public:
  /// Takes the region's events from now on. Both must outlive it.
  EventBus(Region& region, Sqs& sqs, std::uint64_t seed = 1);
  ~EventBus();
  EventBus(const EventBus&) = delete;
  EventBus& operator=(const EventBus&) = delete;

  /// Where envelopes go; empty (the default): nowhere.
  void set_queue(std::string name) { queue_ = std::move(name); }
  const std::string& queue() const { return queue_; }

  EventKnobs knobs;
  int sent = 0;     ///< envelopes put into the queue, doubles included
  int dropped = 0;  ///< those that never came

 private:
  void publish(const InstanceEvent& event);
  double drawn();

  Region& region_;
  Sqs& sqs_;
  std::string queue_;
  std::mt19937_64 random_;
  std::uint64_t last_id_ = 0;
};

/// The envelope of one event, as EventBridge writes it.
std::string envelope_of(const Region& region, const InstanceEvent& event, const std::string& id);

}  // namespace warmroot::sim
