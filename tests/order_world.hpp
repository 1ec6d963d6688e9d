// A planner's world in which operators order something by hand.
#pragma once

#include <string>
#include <variant>

#include "manager/core/model.hpp"
#include "tests/planner_world.hpp"

namespace warmroot {

class OrderWorld : public core::World {
 public:
  using World::World;

  void order(core::OrderKind kind, const std::string& subject, const std::string& pool = "",
             const std::string& detail = "") {
    ledger.orders.push_back({1, kind, subject, pool, detail, core::kNow});
  }
  /// "met: ..." or "refused: ..."; empty while the order stays open.
  std::string settled() const {
    for (const auto& record : plan().records)
      if (const auto* order = std::get_if<core::RecordOrderSettled>(&record))
        return (order->met ? "met: " : "refused: ") + order->answer;
    return "";
  }
};

/// A world in which p-0 is served and nothing is left to do.
inline OrderWorld served() {
  OrderWorld world;
  world.volume("vol-1");
  world.instance("i-1");
  world.attach("vol-1", "i-1");
  return world;
}

}  // namespace warmroot
