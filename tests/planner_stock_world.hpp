// A world for tests of the planner in which volumes are kept that belong to no node yet.
#pragma once

#include "manager/core/filling.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {

struct StockWorld : World {
  explicit StockWorld(int nodes = 1, int running = 1, std::vector<std::string> zones = {"z-a"})
      : World(nodes, running, std::move(zones)) {
    pool().stock.spares = 1;
  }
  aws::Volume& stock_volume(const std::string& id, VolumeRole role = VolumeRole::spare,
                            const std::string& zone = "z-a") {
    auto& made = stranger(id, 0, zone);
    made.tags.erase(kTagNode);
    made.tags[kTagRole] = std::string(to_string(role));
    ledger.volumes[id] = {"p", "", zone, kNow - std::chrono::minutes{20}, true, false, role};
    return made;
  }
  /// The spec names a newer snapshot.
  void new_source() {
    pool().ami.clear();
    pool().snapshot = "snap-new";
    observed.snapshots["snap-new"].found =
        aws::Snapshot{"snap-new", "completed", "1", 8, false, {}};
  }
  aws::Volume& next(const std::string& id, int index = 0) {
    auto& made = volume(id, index);
    made.snapshot_id = made.tags[kTagLineage] = "snap-new";
    ledger.volumes[id].ever_used = false;
    return made;
  }
  void served(const std::string& volume_id, const std::string& instance_id) {
    instance(instance_id);
    attach(volume_id, instance_id);
    report(instance_id, volume_id, NodeStage::ready);
  }
};

}  // namespace warmroot::core
