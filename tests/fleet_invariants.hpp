// The design's invariants of calls and of the region's state, checked against the truth that only
// the region has. A call is judged by what its sender could have known: what changed after the look
// that it was planned on is EC2's to refuse. Used by fleet_harness.hpp and by fleet_sim.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "manager/aws/form.hpp"
#include "manager/core/spec.hpp"
#include "manager/sqlite.hpp"
#include "tests/sim/region.hpp"

namespace warmroot {

/// Who sends a call, and what it may know.
struct Sender {
  manager::Database* spy = nullptr;  ///< its ledger
  /// As of when it knows a volume or an instance; empty: as of now.
  std::function<Instant(const std::string& id)> shown{};
  bool hears_reports = true;

  Instant knew(const std::string& id) const { return shown ? shown(id) : Instant::max(); }
};

class Invariants {
 public:
  Invariants(const sim::Region& region, std::string deployment)
      : region_(region), deployment_(std::move(deployment)) {}

  /// Of a mutating call that is about to leave: 1 to 4, 6, 9 to 12, 15.
  void check_call(const Sender& sender, const aws::Form& form, const std::string& body);
  /// Of the region as it is: 5.
  void check_counts(const core::Desired& desired);
  /// For after the end of a second manager. Of the volumes that the two have made twice for a node
  /// one is named in a note until people delete it: such nodes' volumes are not counted.
  void count_again();
  /// Of the region after each tick: 5, to the instance. `able` means that nothing stood in the way
  /// of its looks and calls.
  void check_instances(const core::Desired& desired, bool able);
  /// Of the region as it is: 2, 3, 11, 12. That a volume has one attachment (1) and none across
  /// zones (4) EC2 sees to itself.
  void check_state();
  /// Of a ledger as it is: 1 and 2.
  void check_leases(manager::Database& spy);
  /// Of the ledger that has heard of left_unmounted: 15.
  void check_unmounted(manager::Database& spy);
  /// A launch call that is no replay, under the limits that its sender was told (5): what it had
  /// been shown of the pool's instances, and what it asks for, cost no more.
  void check_limits(const Sender& sender, const aws::Form& form, const core::PoolSpec& pool);
  void violated(int invariant, const std::string& text);

  /// The guest on a running instance has given the volume back, or never had it.
  std::function<bool(const std::string& instance_id, const std::string& volume_id)> gave_back;
  /// A running instance makes way for another one: it drains, has released, or will never serve.
  std::function<bool(const std::string& instance_id)> leaves = [](const auto&) { return false; };
  /// When somebody set DeleteOnTermination of the volume's attachment; absent: nobody did.
  std::map<std::string, Instant> flagged;
  std::map<std::string, Instant> attached_at;  ///< when EC2 last finished an attach of a volume
  std::map<std::string, int> running;          ///< by pool: the most instances ever wanted
  std::set<std::string> copied;                ///< volumes that people gave a node's tags
  /// Volumes whose tags were away, or not yet there, while no ledger knew them: nobody could tell
  /// whose they were or what is wrong with them, and their nodes may have been given others.
  std::set<std::string> unknowable;
  /// Instances whose tags are away and that no ledger knows: EC2 shows them to nobody who asks for
  /// the deployment's.
  std::set<std::string> unseen;
  /// Volumes of which the manager heard that their node gave them back without having mounted them,
  /// and how warm they were for it then; until somebody mounts them.
  std::map<std::string, std::int64_t> left_unmounted;
  /// Volumes of which the manager was told that no node can repair them; until they are returned.
  std::set<std::string> beyond_repair;
  std::set<std::string> foreign;  ///< ids that no call may ever name
  std::set<std::string> used;     ///< volumes that were attached once
  std::set<std::string> removed;  ///< volumes that people deleted, or ordered to be
  /// False: another manager, whose ledger is not ours, may have made more than one would. Until its
  /// owner sets it again, nothing is counted: (5), and (2) of an instance with a volume of each.
  bool counts = true;
  std::vector<std::string> violations;  ///< "(5) 3 volumes for 2 nodes"

 private:
  void check_recorded(const Sender& sender, const std::string& action, const std::string& body);
  /// An operator ordered it by hand.
  bool ordered(const Sender& sender, const std::string& kind, const std::string& subject) const;
  void check_attach(const Sender& sender, const aws::Form& form);
  void check_set_aside(const Sender& sender, const aws::Form& form);
  void check_detach(const Sender& sender, const aws::Form& form);
  void check_terminate(const Sender& sender, const aws::Form& form);
  bool flag_set_before(const std::string& volume_id, Instant when) const;
  int most_running(const core::PoolSpec& pool) const;
  /// Live instances of ours by pool; without `all` only those that make way for no other.
  std::map<std::string, int> count_instances(bool all) const;
  /// Its node is in handover: it goes, or EC2 or people see to that.
  bool makes_way(const std::string& id, const sim::InstanceRecord& instance) const;
  bool is_pool_volume(const sim::VolumeRecord& volume) const;

  const sim::Region& region_;
  const std::string deployment_;
  std::map<std::string, Instant> started_over_;   ///< stuck attaches: volume, time of the attach
  std::set<std::string> asked_to_end_;            ///< instances that a call of ours was to end
  std::map<std::string, Instant> surplus_since_;  ///< by pool, while its manager was able to end it
  std::set<std::string> launched_;       ///< by a manager, whatever people do to their tags later
  std::set<std::string> from_launch_;    ///< volumes that came with an instance
  std::set<std::string> doubled_nodes_;  ///< by two managers that did not know of each other
};

}  // namespace warmroot
