// The simulated region: EC2's rules for volumes and instances under virtual time. Nothing here
// reads a clock; advance() moves time, and with it every waiting state. The Query front (query.hpp)
// turns form bodies into these calls; the physical side stands behind Hardware. Not thread-safe:
// the server holds one mutex around it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/hardware.hpp"
#include "tests/sim/region_fleet.hpp"
#include "tests/sim/region_model.hpp"

namespace warmroot::sim {

struct CreateVolumeArgs {
  std::string zone;
  std::string snapshot_id;
  std::optional<int> size_gib;
  std::string type;  ///< empty: gp2, EC2's default
  std::optional<int> iops;
  std::optional<int> throughput;
  std::optional<int> initialization_rate;
  bool encrypted = false;
  bool multi_attach = false;
  std::string kms_key;
  std::string client_token;
  std::string fingerprint;  ///< all parameters as text; compared when a token is used again
  Tags tags;
  std::string source_volume_id;  ///< of a copy
};

/// A data volume (or instance store disk) that a launch makes.
struct LaunchDisk {
  std::string device;
  CreateVolumeArgs volume;
  std::optional<bool> delete_on_termination;
  std::string virtual_name;  ///< ephemeral0: no volume
  bool none = false;         ///< NoDevice: the image's device is left out
  bool of_image = false;     ///< its snapshot is the image's own
};

struct RunInstancesArgs {
  std::string image_id;
  std::string type;
  int min_count = 1;
  int max_count = 1;
  std::string subnet_id;
  std::string zone;
  std::vector<std::string> security_groups;
  std::string key_name;
  std::string instance_profile;
  std::string user_data;
  std::string client_token;
  std::string fingerprint;
  bool spot = false;
  std::string max_price;
  std::optional<int> root_size_gib;
  bool root_delete_on_termination = true;
  std::vector<LaunchDisk> disks;  ///< beside the root
  bool api_termination_disabled = false;
  bool api_stop_disabled = false;
  bool terminate_on_shutdown = false;
  bool metadata_tags = false;
  bool monitored = false;  ///< detailed monitoring
  bool ebs_optimized = false;
  Tags instance_tags;
  Tags volume_tags;
};

/// A volume and instance as one line of TerminateInstances' answer.
struct StateChange {
  std::string instance_id;
  GuestState before;
  GuestState after;
};

class Region {
 public:
  /// `hardware` must outlive the region. `start` is the first instant; ids follow from `seed`
  /// alone.
  Region(Catalog catalog, RegionTimes times, Hardware& hardware, Instant start,
         std::uint64_t seed = 1);

  Instant now() const { return now_; }
  /// Moves time forward, through every change that falls due on the way.
  void advance(Instant to);
  void advance_by(Milliseconds step) { advance(now_ + step); }

  // ---- volumes ----
  Answer<VolumeRecord> create_volume(const CreateVolumeArgs& args);
  Answer<VolumeRecord> attach_volume(const std::string& volume_id, const std::string& instance_id,
                                     const std::string& device);
  /// An empty `instance_id` or `device` matches any, as EC2's does.
  Answer<VolumeRecord> detach_volume(const std::string& volume_id, const std::string& instance_id,
                                     const std::string& device, bool force);
  Answer<void> delete_volume(const std::string& volume_id);

  // ---- snapshots, copies, initialisation (region_snapshots.cpp) ----
  /// A copy in the source's zone. Zone and snapshot of `args` are not read.
  Answer<VolumeRecord> copy_volume(CreateVolumeArgs args);
  Answer<SnapshotRecord> create_snapshot(const std::string& volume_id,
                                         const std::string& description, const Tags& tags);
  Answer<void> delete_snapshot(const std::string& snapshot_id);
  /// EC2's word for the snapshot's state, and its percentage.
  std::string snapshot_state(const SnapshotRecord& snapshot) const;
  int snapshot_percent(const SnapshotRecord& snapshot) const;
  /// Percent of the volume's blocks that are there, as a status that is up to `status_stale` old
  /// says; 100 for a volume born empty.
  int shown_progress(const VolumeRecord& volume) const;
  Answer<void> enable_fast_restore(const std::string& snapshot_id, const std::string& zone);
  Answer<void> disable_fast_restore(const std::string& snapshot_id, const std::string& zone);
  /// By (snapshot, zone).
  const std::map<std::pair<std::string, std::string>, FastRestore>& fast_restores() const;
  std::string fast_restore_state(const std::pair<std::string, std::string>& place) const;

  // ---- instances ----
  /// What a dry run of a launch tells: whether everything that it names is there.
  Answer<void> check_launch(const RunInstancesArgs& args) const;
  Answer<std::vector<InstanceRecord>> run_instances(const RunInstancesArgs& args);
  Answer<std::vector<StateChange>> terminate_instances(const std::vector<std::string>& ids);
  Answer<std::vector<StateChange>> stop_instances(const std::vector<std::string>& ids);
  Answer<std::vector<StateChange>> start_instances(const std::vector<std::string>& ids);
  /// Sets DeleteOnTermination of one attached device. `volume_id` may be empty.
  Answer<void> keep_disk(const std::string& instance_id, const std::string& device,
                         const std::string& volume_id, bool delete_on_termination);
  /// An instance whose attributes a call changes; nullptr when unknown.
  InstanceRecord* changeable(const std::string& instance_id);

  // ---- templates and fleets (region_fleet.cpp) ----
  const std::map<std::string, TemplateRecord>& templates() const;
  const TemplateRecord* template_named(const std::string& name) const;
  Answer<TemplateRecord> create_template(const std::string& name, TemplateVersion version,
                                         const Tags& tags, const std::string& token,
                                         const std::string& fingerprint);
  /// Requires: the template exists. Answers with the template, whose last version is the new one.
  Answer<TemplateRecord> add_template_version(const std::string& id, TemplateVersion version,
                                              const std::string& token,
                                              const std::string& fingerprint);
  void delete_template(const std::string& id);
  /// The fleet that the token made, or nullptr. A token is regional: EC2's zonal rule is
  /// RunInstances' alone. A replay answers as the first time did, whatever became of the instances
  /// since (assumption).
  Answer<const FleetRecord*> fleet_of_token(const std::string& token,
                                            const std::string& fingerprint) const;
  const FleetRecord& keep_fleet(FleetRecord fleet, const std::string& token,
                                const std::string& fingerprint);
  /// Tags that only EC2 itself may give ("aws:...").
  void tag_by_ec2(const std::string& instance_id, const Tags& tags);
  /// Launches one instance as an Auto Scaling group would: with the group's tag beside those given.
  Answer<InstanceRecord> launch_in_group(const std::string& group, RunInstancesArgs args);
  /// The group ends one of its instances. With a hook it says so and waits so long; zero: no hook.
  Answer<void> end_in_group(const std::string& instance_id, Milliseconds hook);

  // ---- tags ----
  Answer<void> create_tags(const std::vector<std::string>& resources, const Tags& tags);
  /// A key whose value is nullopt is deleted whatever its value; no keys at all deletes every tag.
  Answer<void> delete_tags(const std::vector<std::string>& resources,
                           const std::map<std::string, std::optional<std::string>>& keys);

  // ---- what an operator (or a fault) does ----
  /// Gives a spot instance its notice; it is reclaimed when the notice time is over.
  Answer<void> interrupt(const std::string& instance_id);
  /// Hints that a spot instance may be interrupted soon; perhaps it never is.
  Answer<void> recommend_rebalance(const std::string& instance_id);
  /// Cuts the power at once; the instance then goes the way of a reclaimed one.
  Answer<void> crash(const std::string& instance_id);
  /// Cuts the power at once, but EC2 keeps saying "running", with failed status checks.
  Answer<void> impair(const std::string& instance_id);

  /// Ends all machines, for the end of the program.
  void power_off_all();

  // ---- what a fault does (region_faults.cpp) ----
  /// The instance and its disks' attachments are gone, now, without any state in between.
  Answer<void> end_now(const std::string& instance_id);
  /// What its own user-data may do: the guest powers itself off, and EC2 finds that out.
  Answer<void> power_itself_off(const std::string& instance_id);
  /// Whether its system answers. While it does not, as during a long boot, EC2 goes on saying
  /// "running", and of its two checks that of the instance fails.
  Answer<void> set_reachable(const std::string& instance_id, bool reachable);
  /// Stops it: the machine is asked to end, and the attachments stay.
  Answer<void> stop(const std::string& instance_id);
  /// Its status check fails from now on: I/O is off.
  Answer<void> impair_volume(const std::string& volume_id);
  /// A whole zone goes bad or comes back. While it is bad its instances fail their status checks,
  /// launches and by-id looks there are refused, and attaches stay "attaching" (BC: "if you specify
  /// instance IDs that are in an impaired zone, the call fails"; the rest is assumed).
  Answer<void> impair_zone(const std::string& zone, bool bad);
  bool zone_impaired(const std::string& zone) const { return bad_zones_.contains(zone); }
  /// Calls `what` when its time has come.
  void later(Milliseconds wait, std::function<void()> what) { at(now_ + wait, std::move(what)); }
  /// How often each knob's fault happened, by name.
  const std::map<std::string, int>& fault_counts() const { return fault_counts_; }

  // ---- looking at another world than the present one ----
  /// The world as it was, for readers that are behind.
  struct World {
    Instant time;
    std::map<std::string, VolumeRecord> volumes;
    std::map<std::string, InstanceRecord> instances;
  };
  /// While it lives, the looking functions below show another world.
  class View {
   public:
    View(Region& region, const World* world, const Catalog* catalog, Milliseconds visibility);
    ~View();
    View(const View&) = delete;
    View& operator=(const View&) = delete;

   private:
    Region& region_;
  };
  /// Keeps the worlds of the last `span`; 0 (the default) keeps none.
  void keep_history(Milliseconds span);
  /// A view of the world `age` ago, in which what is younger than `visibility` is not found.
  View look_back(Milliseconds age, Milliseconds visibility);
  /// A view with another account's eyes: public images, and nothing else.
  View look_as_stranger();
  /// Something changed that history must keep; every event and noted change says so itself.
  void changed() {
    changed_ = true;
    ++revision_;
  }
  /// Another number after every change that a listing could show.
  std::uint64_t revision() const { return revision_; }

  // ---- looking ----
  const Catalog& catalog() const { return shown_catalog_ ? *shown_catalog_ : catalog_; }
  const RegionTimes& times() const { return times_; }
  const std::map<std::string, VolumeRecord>& volumes() const {
    return shown_ ? shown_->volumes : volumes_;
  }
  const std::map<std::string, InstanceRecord>& instances() const {
    return shown_ ? shown_->instances : instances_;
  }
  const VolumeRecord* volume(const std::string& id) const;
  const InstanceRecord* instance(const std::string& id) const;
  const SnapshotRecord* snapshot(const std::string& id) const;
  const ImageRecord* image(const std::string& id) const;
  const SubnetRecord* subnet(const std::string& id) const;
  const Zone* zone(const std::string& name) const;
  /// False while a new resource is not yet shown by Describe calls.
  bool visible(Instant created) const {
    return now_ >= created + std::max(times_.visibility, shown_visibility_);
  }
  /// Free addresses of a subnet.
  int free_addresses(const std::string& subnet_id) const;
  /// The spot price in hundred-thousandths of a dollar an hour: the knob's, else fixed by type and
  /// zone.
  int spot_price(const std::string& type, const std::string& zone) const;
  static std::int64_t on_demand_price(const std::string& type);
  /// Instances of the type that the zone has room for now; kUnlimited without a limit.
  int room(const std::string& type, const std::string& zone) const;
  static constexpr int kUnlimited = 1'000'000;
  /// Counts a question for placement scores. Errors: MaxConfigLimitExceeded for a new one beyond
  /// what is taken in 24 hours; one that was answered in that time is none.
  Answer<void> take_placement_question(const std::string& configuration);
  bool offered(const std::string& type, const std::string& zone) const;
  Hardware& hardware() { return hardware_; }

  RegionKnobs knobs;
  /// Called for each launched instance before its machine starts; gives its IMDS port.
  std::function<std::uint16_t(const std::string& instance_id)> open_imds;
  std::function<void(const std::string& instance_id)> close_imds;
  /// Told of every change, in words, for logs.
  std::function<void(const std::string&)> on_event;

  /// Told of notices and of every new state of an instance: the event bus listens.
  std::function<void(const InstanceEvent&)> on_instance_event;

  /// "prefix" and 17 hex digits.
  std::string new_id(const std::string& prefix);

 private:
  /// A machine that could not take a disk is asked again after this time.
  static constexpr Milliseconds kPlugRetry{1000};

  /// Addresses of a subnet: those from `next` on were never given.
  struct Addresses {
    std::uint32_t next = 0, end = 0;
    std::set<std::uint32_t> given_back;
  };
  struct Token {
    std::string fingerprint;
    std::vector<std::string> ids;
    Instant made;
  };

  void at(Instant when, std::function<void()> what) { events_.emplace(when, std::move(what)); }
  Milliseconds drawn(Milliseconds time);
  void note(const std::string& text) {
    changed();
    if (on_event) on_event(text);
  }
  void tell(InstanceEvent::Kind kind, const InstanceRecord& guest) {
    if (on_instance_event) on_instance_event({kind, guest.id, guest.zone, guest.state, now_, ""});
  }
  void set_state(InstanceRecord& guest, GuestState state) {
    if (state == GuestState::shutting_down || state == GuestState::stopping)
      ending_.insert(guest.id);
    else
      ending_.erase(guest.id);
    guest.state = state;
    tell(InstanceEvent::Kind::state_change, guest);
  }
  void count(const std::string& fault) { ++fault_counts_[fault]; }
  void reclaim(const std::string& instance_id);
  /// Uses up one of a knob's faults, and counts it by its name.
  bool strikes(int& left, const std::string& fault);
  bool key_revoked(const VolumeRecord& disk) const;
  void doom(VolumeRecord& disk);
  void doom(InstanceRecord& guest);
  void fail_launch(InstanceRecord& guest);
  void move_time(Instant to);
  void poll();

  void finish_create(const std::string& volume_id);
  void finish_attach(const std::string& volume_id, unsigned generation);
  void try_detach(const std::string& volume_id, unsigned generation);
  void unlink(VolumeRecord& volume);
  void release(VolumeRecord& volume);
  VolumeRecord new_volume(const CreateVolumeArgs& args);
  /// The volume that a token has made; nullopt when it has made none.
  Answer<std::optional<VolumeRecord>> volume_of_token(const std::string& token,
                                                      const std::string& fingerprint) const;
  VolumeRecord keep_new_volume(VolumeRecord made, const CreateVolumeArgs& args);
  void begin_initialising(VolumeRecord& made, const CreateVolumeArgs& args);
  bool take_fast_restore_credit(const std::string& snapshot_id, const std::string& zone);
  Answer<void> check_copy(const VolumeRecord& source) const;
  Answer<void> check_rate_quota(int rate) const;
  void erase_volume(const std::string& volume_id);
  Answer<void> check_create(const CreateVolumeArgs& args, const SnapshotRecord* source) const;
  Answer<void> check_attach(const VolumeRecord& volume, const InstanceRecord& guest,
                            const std::string& device) const;

  Answer<const SubnetRecord*> placement_of(const RunInstancesArgs& args) const;
  Answer<void> check_run(const RunInstancesArgs& args) const;
  Answer<int> capacity_for(const RunInstancesArgs& args, const std::string& zone) const;
  Answer<void> check_price(const std::string& type, const std::string& zone,
                           const std::string& max_price) const;
  Answer<void> check_offered(const std::string& type, const std::string& zone) const;
  /// How many more instances of the type the vCPU quota lets in; refuses when none.
  Answer<int> vcpu_room(const std::string& type, bool spot) const;
  void occupy(InstanceRecord& guest, bool on);
  Addresses& addresses_of(const SubnetRecord& subnet);
  std::string take_address(const SubnetRecord& subnet);
  void give_address_back(InstanceRecord& guest);

  Answer<std::vector<LaunchDisk>> launch_disks(const RunInstancesArgs& args,
                                               const std::string& zone) const;
  Answer<void> check_launch_disk(const LaunchDisk& disk) const;
  void make_launch_disk(InstanceRecord& guest, const LaunchDisk& wanted, const Tags& tags);
  void make_root(InstanceRecord& guest, const RunInstancesArgs& args, const ImageRecord& source);
  bool make_disks_ready(InstanceRecord& guest);
  void plug_disks(const std::string& instance_id);
  InstanceRecord make_instance(const RunInstancesArgs& args, const SubnetRecord& subnet,
                               const std::vector<LaunchDisk>& disks, const std::string& reservation,
                               int index);
  void schedule_boot(const InstanceRecord& guest);
  void power_on(const std::string& instance_id);
  void set_running(const std::string& instance_id);
  void begin_shutdown(InstanceRecord& guest, const std::string& reason, const std::string& message);
  void look_at_shutdown(const InstanceRecord& guest);
  void poll_shutdown(InstanceRecord& guest);
  Answer<void> check_ids(const std::vector<std::string>& ids) const;
  Answer<void> check_stop(const InstanceRecord& guest) const;
  Answer<void> check_start(const InstanceRecord& guest) const;
  void begin_stop(InstanceRecord& guest, const std::string& reason, const std::string& message);
  void finish_stop(InstanceRecord& guest);
  void finish_terminate(InstanceRecord& guest);
  void poll_machine(InstanceRecord& guest);
  Tags* tags_of(const std::string& resource);

  Catalog catalog_;
  RegionTimes times_;
  Hardware& hardware_;
  Instant now_;
  Instant last_busy_poll_;
  Instant last_machine_poll_;
  std::mt19937_64 random_;
  std::multimap<Instant, std::function<void()>> events_;
  std::map<std::string, VolumeRecord> volumes_;
  std::map<std::string, InstanceRecord> instances_;
  std::map<std::string, Token> volume_tokens_;
  std::map<std::pair<std::string, std::string>, Token> launch_tokens_;  ///< (token, zone or "")
  std::map<std::pair<std::string, std::string>, FastRestore> fast_restores_;
  std::set<std::string> initialising_;  ///< volumes with a paid rate or a copy under way
  std::map<std::string, TemplateRecord> templates_;
  std::map<std::string, Token> template_tokens_;
  std::map<std::string, FleetRecord> fleets_;
  std::map<std::string, Token> fleet_tokens_;
  std::set<std::string> awake_;   ///< instances that are neither stopped nor terminated
  std::set<std::string> ending_;  ///< of those: on their way there
  std::set<std::string> busy_;    ///< volumes whose guest is asked again
  std::map<std::string, Addresses> addresses_;                   ///< by subnet
  std::map<std::pair<std::string, std::string>, int> occupied_;  ///< (type, zone)
  std::map<std::pair<bool, std::string>, int> vcpus_used_;       ///< (spot, quota class)
  std::map<std::string, Instant> placement_questions_;           ///< answered last
  std::uint64_t last_number_ = 0;
  std::set<std::string> bad_zones_;
  std::map<std::string, int> fault_counts_;
  Milliseconds history_span_{0};
  bool changed_ = false;
  std::uint64_t revision_ = 1;
  std::deque<World> history_;
  const World* shown_ = nullptr;
  const Catalog* shown_catalog_ = nullptr;
  Milliseconds shown_visibility_{0};
};

/// The snapshots, images, subnets and keys that `warmroot-sim serve` starts with when it is given
/// no catalogue: among them an arm64 image, and an image whose root snapshot may not be read.
Catalog builtin_catalog(const std::string& region, const std::vector<std::string>& zones);

}  // namespace warmroot::sim
