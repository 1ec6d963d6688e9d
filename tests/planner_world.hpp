// A small builder for what the planner sees: a spec, a look at EC2, and a ledger, each with
// sensible contents to start from, so that a test states only what it is about.
#pragma once

#include <string>
#include <vector>

#include "manager/core/model.hpp"
#include "manager/core/planner.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

inline const Instant kNow{std::chrono::hours{24 * 20'000}};

struct World {
  Desired desired;
  Observed observed;
  LedgerView ledger;
  Limits limits;
  Instant now = kNow;

  explicit World(int nodes = 1, int running = 1, std::vector<std::string> zones = {"z-a"}) {
    desired.deployment = "test";
    PoolSpec pool;
    pool.name = "p";
    pool.ami = "ami-volume";
    pool.zones = std::move(zones);
    pool.nodes = nodes;
    pool.running = running;
    pool.launch = LaunchSpec{};
    pool.launch->base_ami = "ami-base";
    pool.launch->instance_types = {"g5.xlarge", "g4dn.xlarge"};
    desired.pools.push_back(pool);
    observed.complete = true;
    observed.at = observed.listed_from = kNow;
    for (const auto* id : {"ami-volume", "ami-base"})
      observed.images[id].found = image(id, "x86_64");
    observed.snapshots["snap-ami-volume"].found =
        aws::Snapshot{"snap-ami-volume", "completed", "1", 8, false, {}};
    for (const auto* zone : {"z-a", "z-b"}) observed.zones[zone] = {zone, zone, "available"};
    ledger.begun = kNow - std::chrono::hours{1};
  }

  static aws::Image image(const std::string& id, const std::string& architecture) {
    aws::Image made;
    made.image_id = made.name = id;
    made.state = "available";
    made.architecture = architecture;
    made.root_device_name = "/dev/xvda";
    made.mappings = {{"/dev/xvda", "snap-" + id, 8}};
    return made;
  }

  PoolSpec& pool() { return desired.pools.front(); }

  /// A recorded volume of node p-<index>.
  aws::Volume& volume(const std::string& id, int index = 0, const std::string& zone = "z-a",
                      const std::string& pool_name = "p") {
    auto& made = stranger(id, index, zone, pool_name);
    ledger.volumes[id] = {
        pool_name, node_name(pool_name, index), zone, kNow - std::chrono::minutes{30}, true, true};
    return made;
  }

  /// The same without a record.
  aws::Volume& stranger(const std::string& id, int index = 0, const std::string& zone = "z-a",
                        const std::string& pool_name = "p") {
    auto& made = observed.volumes[id];
    made.volume_id = id;
    made.snapshot_id = "snap-ami-volume";
    made.availability_zone = zone;
    made.state = aws::VolumeState::available;
    made.create_time = kNow - std::chrono::minutes{30};
    made.tags = {{kTagDeployment, "test"},
                 {kTagPool, pool_name},
                 {kTagNode, node_name(pool_name, index)},
                 {kTagLineage, "snap-ami-volume"}};
    return made;
  }

  /// An instance of the pool that we launched.
  aws::Instance& instance(const std::string& id,
                          aws::InstanceState state = aws::InstanceState::running,
                          const std::string& zone = "z-a", const std::string& pool_name = "p") {
    auto& made = observed.instances[id];
    made.instance_id = id;
    made.state = state;
    made.availability_zone = zone;
    made.root_device_name = "/dev/xvda";
    const bool young = state == aws::InstanceState::pending;  // for ever is another matter
    const Milliseconds age = young ? std::chrono::seconds{10} : std::chrono::minutes{10};
    made.launch_time = kNow - age;
    made.tags = {{kTagDeployment, "test"}, {kTagPool, pool_name}};
    ledger.instances[id] = {pool_name, zone, kNow - age};
    return made;
  }

  void attach(const std::string& volume_id, const std::string& instance_id,
              aws::AttachmentState state = aws::AttachmentState::attached) {
    auto& seen = observed.volumes.at(volume_id);
    seen.state = aws::VolumeState::in_use;
    seen.attachments = {{volume_id, instance_id, "/dev/sdf", state, kNow, false}};
    lease(volume_id, instance_id,
          state == aws::AttachmentState::attaching ? LeaseState::attaching : LeaseState::active);
  }

  /// What holds at this look has held for so long.
  void hold_for(Milliseconds time) {
    for (const auto& what : plan().watches) ledger.watches[what] = {kNow - time, 50};
  }

  void lease(const std::string& volume_id, const std::string& instance_id, LeaseState state) {
    const auto& tags = observed.volumes.at(volume_id).tags;
    ledger.leases.push_back({tags.at(kTagPool), tags.at(kTagNode), volume_id, instance_id,
                             "/dev/sdf", state, kNow - std::chrono::minutes{5}});
  }

  void report(const std::string& instance_id, const std::string& volume_id, NodeStage stage,
              Milliseconds ago = Milliseconds{1000}) {
    observed.reports[instance_id] = {instance_id, volume_id, stage, "", kNow - ago, "", ""};
  }

  Plan plan() const { return core::plan(desired, observed, ledger, now, limits); }

  /// The plan's calls as "AttachVolume vol-1 to i-1 as /dev/sdf".
  std::vector<std::string> calls() const { return calls_of(plan()); }
  static std::vector<std::string> calls_of(const Plan& plan) {
    std::vector<std::string> texts;
    for (const auto& action : plan.actions)
      texts.push_back(std::string(action_name(action.mutation)) + " " +
                      resource_of(action.mutation));
    return texts;
  }
  std::string notes() const {
    std::string text;
    for (const auto& note : plan().notes) text += note.text + "\n";
    return text;
  }
};

template <typename Call>
const Call* only(const Plan& plan) {
  const Call* found = nullptr;
  for (const auto& action : plan.actions)
    if (const auto* call = std::get_if<Call>(&action.mutation)) {
      if (found) return nullptr;
      found = call;
    }
  return found;
}

/// What the plan records of one kind.
template <typename Kind>
std::vector<Kind> records(const Plan& plan) {
  std::vector<Kind> found;
  for (const auto& record : plan.records)
    if (const auto* one = std::get_if<Kind>(&record)) found.push_back(*one);
  return found;
}

/// Three nodes with volumes and nothing that runs.
inline World three_waiting() {
  World world(3, 3);
  for (int i = 0; i < 3; ++i) world.volume("vol-" + std::to_string(i), i);
  world.pool().launch->instance_types = {"g5.xlarge"};
  return world;
}

template <typename Call>
std::vector<const Call*> all(const Plan& plan) {
  std::vector<const Call*> found;
  for (const auto& action : plan.actions)
    if (const auto* call = std::get_if<Call>(&action.mutation)) found.push_back(call);
  return found;
}

}  // namespace warmroot::core
