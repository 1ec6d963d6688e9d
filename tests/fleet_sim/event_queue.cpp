// See the header.
#include "tests/fleet_sim/event_queue.hpp"

#include "tests/fleet_sim/world.hpp"
#include "tests/sim/event_bus.hpp"

namespace warmroot::fleet {

namespace {

/// As manager/events.cpp asks for it.
constexpr std::chrono::seconds kHidden{60};
/// A long poll ends after this time, and says that the queue is there.
constexpr std::chrono::seconds kPoll{20};

}  // namespace

EventQueue::EventQueue(World& world, std::uint64_t seed) : world_(world), draw_(seed) {
  world.region.on_instance_event = [this](const sim::InstanceEvent& event) { publish(event); };
}

void EventQueue::put(const std::string& body, Milliseconds after) {
  messages_["r-" + std::to_string(++last_)] = {body, world_.region.now() + after};
}

void EventQueue::publish(const sim::InstanceEvent& event) {
  if (!on || draw_.unit() < missing) return;
  const auto body = sim::envelope_of(world_.region, event, "e-" + std::to_string(++last_));
  const int copies = draw_.unit() < doubled ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy)
    put(body, late + draw_.span(Milliseconds{0}, spread + std::chrono::seconds{1}));
}

Instant EventQueue::next() const {
  Instant next = Instant::max();
  if (!on || deaf) return next;
  for (const auto& [receipt, message] : messages_)
    if (message.visible > world_.region.now()) next = std::min(next, message.visible);
  return next;
}

void EventQueue::step(Host& host) {
  if (!on || deaf || !host.process.running() || !host.inbox) return;
  const Instant now = world_.region.now();
  const Instant theirs = now + host.clock_at_start;
  if (now >= host.polled + kPoll) {
    host.polled = now;
    host.inbox->listened(theirs);
  }
  std::vector<std::string> useless;
  for (auto& [receipt, message] : messages_) {
    if (message.visible > now) continue;
    message.visible = now + kHidden;
    auto event = manager::parse_envelope(message.body);
    world_.coverage.add("event", event ? "taken" : "unparsable");
    if (!event) {
      useless.push_back(receipt);
      continue;
    }
    event->time += theirs - (now + host.clock);
    if (host.inbox->take(*event, receipt, host.door && host.door->board.known(event->instance_id),
                         theirs))
      host.next_tick = std::min(host.next_tick, now + host.process.reconciler->shortest_pause());
  }
  remove(useless);
}

void EventQueue::remove(const std::vector<std::string>& receipts) {
  for (const auto& receipt : receipts) messages_.erase(receipt);
}

}  // namespace warmroot::fleet
