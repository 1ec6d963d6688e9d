// EC2's events on their way to a manager: an SQS queue that is best effort as EventBridge is. What
// a manager takes is hidden for a while and comes again unless it is deleted; events may be
// missing, late, doubled, out of order or forged. Only the first manager of a world listens, and
// only in some worlds.
#pragma once

#include <map>
#include <string>

#include "tests/fleet_sim/draw.hpp"
#include "tests/sim/region.hpp"

namespace warmroot::fleet {

class World;
struct Host;

class EventQueue {
 public:
  /// Takes the region's events from now on.
  EventQueue(World& world, std::uint64_t seed);

  /// When the next message that nobody can take yet can be taken.
  Instant next() const;
  /// Hands everything that can be taken to the host's inbox, as a long poll does.
  void step(Host& host);
  /// The ledger knows what these mean: they leave the queue.
  void remove(const std::vector<std::string>& receipts);
  /// Puts a message in, from anybody.
  void put(const std::string& body, Milliseconds late = {});

  bool on = false;
  bool deaf = false;       ///< the queue does not answer
  double missing = 0;      ///< share of events that never come
  double doubled = 0;      ///< share of events that come twice, under one id
  Milliseconds late{0};    ///< added to every event's way
  Milliseconds spread{0};  ///< up to so much more, drawn for each

 private:
  struct Message {
    std::string body;
    Instant visible{};
  };
  void publish(const sim::InstanceEvent& event);

  World& world_;
  Draw draw_;
  std::map<std::string, Message> messages_;  ///< by receipt
  unsigned last_ = 0;
};

}  // namespace warmroot::fleet
