// May we? Each call that the spec needs goes out as a dry run, on something of ours where the call
// needs something: EC2 tells an unknown id before it looks at rights.
#include <algorithm>

#include "manager/aws/ec2_codec.hpp"
#include "manager/core/importing.hpp"
#include "manager/core/launch_calls.hpp"
#include "manager/core/pool_source.hpp"
#include "manager/doctor.hpp"

namespace warmroot::manager {
namespace {

/// One call to be tried, and why it is needed.
struct Trial {
  aws::Mutation call;
  std::string pool;
  std::string need;       ///< "launches instances"
  bool optional = false;  ///< nothing that the spec asks for needs it
  bool variant = false;   ///< a type or zone that EC2 may not have is no matter of rights
};

std::string zone_of(const core::PoolSpec& pool) {
  return pool.zones.empty() ? std::string() : pool.zones.front();
}

std::string snapshot_of(const core::PoolSpec& pool, const core::Observed& observed) {
  if (!pool.snapshot.empty()) return pool.snapshot;
  const auto image = observed.images.find(pool.ami);
  if (image == observed.images.end() || !image->second.found) return {};
  return core::root_snapshot_of(*image->second.found);
}

aws::Tags tags_of(const core::PoolSpec& pool, const DoctorFacts& facts) {
  return {{core::kTagDeployment, facts.desired.deployment}, {core::kTagPool, pool.name}};
}

/// Dry runs spend EC2's bucket of launches, which `serve` uses too.
constexpr int kMostVariants = 6;
/// In one run. Source: as many as one `plan` tries.
constexpr int kMostLaunches = 100;

/// A policy may name types, zones and their subnets: each is tried once, and not with each other.
void add_launches(const core::PoolSpec& pool, const DoctorFacts& facts,
                  const aws::RunInstances& launch, const std::string& snapshot_id,
                  std::vector<Trial>& trials) {
  trials.push_back({launch, pool.name, "launches instances"});
  auto other = launch;
  if (pool.launch->volume_with_launch && !snapshot_id.empty()) {
    core::add_volume(other, facts.desired.deployment, pool, snapshot_id);
    trials.push_back({other, pool.name, "launches instances with their volumes"});
    other = launch;
  }
  int tried = 0;
  for (const std::string& zone : pool.zones) {
    if (zone == zone_of(pool)) continue;
    core::set_zone(other, *pool.launch, zone);
    if (tried++ >= kMostVariants) return;
    trials.push_back({other, pool.name, "launches instances in " + zone, false, true});
  }
  other = launch;
  for (const std::string& type : pool.launch->instance_types) {
    if (type == launch.instance_type) continue;
    other.instance_type = type;
    if (tried++ >= kMostVariants) return;
    trials.push_back({other, pool.name, "launches " + type, false, true});
  }
}

void add_creates(const core::PoolSpec& pool, const DoctorFacts& facts,
                 const core::Observed& observed, std::vector<Trial>& trials) {
  aws::CreateVolume create;
  create.availability_zone = zone_of(pool);
  create.snapshot_id = snapshot_of(pool, observed);
  create.size_gib = pool.volumes.size_gib;
  create.volume_type = pool.volumes.type;
  create.iops = pool.volumes.iops;
  create.throughput_mib_s = pool.volumes.throughput_mib_s;
  create.encrypted = pool.volumes.encrypted;
  create.kms_key = pool.volumes.kms_key;
  create.tags = tags_of(pool, facts);
  if (!create.snapshot_id.empty()) trials.push_back({create, pool.name, "makes volumes"});
  if (!pool.launch) return;
  const aws::RunInstances launch = core::probe_call(observed, facts.desired.deployment, pool);
  add_launches(pool, facts, launch, create.snapshot_id, trials);
  if (pool.launch->instance_types.size() < 2) return;
  trials.push_back({aws::CreateLaunchTemplate{"warmroot-doctor", launch, "", tags_of(pool, facts)},
                    pool.name, "prepares fleets of several instance types"});
  aws::CreateFleet fleet;
  fleet.launch_template_id = "lt-00000000000000000";  // none is made for a question
  fleet.launch_template_version = "1";
  fleet.fleet_tags = fleet.instance_tags = fleet.volume_tags = tags_of(pool, facts);
  for (const std::string& type : pool.launch->instance_types)
    fleet.overrides.push_back({type, launch.subnet_id, launch.availability_zone, ""});
  trials.push_back({fleet, pool.name, "launches fleets"});
}

/// What any of the pools asks for.
struct Wanted {
  bool copies = false;
  bool fleets = false;
  bool snapshots = false;
  bool launches = false;
  bool launch_volumes = false;  ///< volumes that come with their launches
};

/// What calls are tried on; empty: there is none.
struct Subjects {
  std::string volume;
  std::string instance;      ///< that runs, whoever launched it
  std::string own_instance;  ///< of this deployment by its tag, as policies ask
};

Subjects subjects_in(const DoctorFacts& facts, const core::Observed& observed) {
  Subjects found;
  if (!observed.volumes.empty()) found.volume = observed.volumes.begin()->first;
  for (const auto& [id, instance] : observed.instances) {
    if (instance.state != aws::InstanceState::running) continue;
    if (found.instance.empty()) found.instance = id;
    const auto tag = instance.tags.find(core::kTagDeployment);
    const bool own = tag != instance.tags.end() && tag->second == facts.desired.deployment;
    if (found.own_instance.empty() && own) found.own_instance = id;
  }
  return found;
}

/// Calls on what is there already.
void add_uses(const std::string& deployment, const Subjects& on, const Wanted& wanted,
              std::vector<Trial>& trials) {
  const auto& [volume, instance, own_instance] = on;
  if (!volume.empty()) {
    trials.push_back(
        {aws::CreateTags{{volume}, {{core::kTagDeployment, deployment}}}, "", "tags volumes"});
    trials.push_back({aws::DeleteTags{{volume}, {core::kTagQuarantined}}, "",
                      "returns volumes that were set aside"});
    trials.push_back({aws::DeleteVolume{volume}, "", "deletes volumes by an operator's order"});
    trials.push_back(
        {aws::CreateSnapshot{volume,
                             "warmroot doctor",
                             {{core::kTagDeployment, deployment}, {core::kTagImport, "doctor"}}},
         "",
         wanted.snapshots ? "keeps volumes as they were left uncleanly"
                          : "`ami import` needs and nothing else",
         !wanted.snapshots});
    if (wanted.copies)
      trials.push_back(
          {aws::CopyVolumes{volume, 0, "gp3", {}, {}, "", {{core::kTagDeployment, deployment}}}, "",
           "copies golden volumes"});
  }
  if (!volume.empty() && !instance.empty()) {
    trials.push_back({aws::AttachVolume{volume, instance, "/dev/sdf"}, "", "attaches volumes"});
    trials.push_back({aws::DetachVolume{volume, instance, ""}, "", "detaches volumes"});
  }
  if (own_instance.empty()) return;
  trials.push_back({aws::TerminateInstances{{own_instance}}, "",
                    wanted.launches ? "ends instances" : "pools with [pool.launch] need",
                    !wanted.launches});
  aws::ModifyInstanceAttribute keep;
  keep.instance_id = own_instance;
  keep.device_name = "/dev/sdf";
  keep.delete_on_termination = false;
  trials.push_back({keep, "",
                    wanted.launch_volumes ? "keeps volumes that a launch made"
                                          : "pools with volume_with_launch need",
                    !wanted.launch_volumes});
}

/// An answer that is about something else than rights: these are looked at first, or the other way
/// round; EC2 does not say.
Finding answered(const Trial& trial, const std::string& right, const Error& error) {
  if (aws::bare_code(error.code) == "UnauthorizedOperation")
    return (trial.optional ? Finding::unknown : Finding::wrong)(
        "permissions", trial.pool, right + " is denied, which " + trial.need,
        who_denies(error.context));
  const bool spec = !trial.optional && (error.kind == ErrorKind::misconfigured ||
                                        error.kind == ErrorKind::unauthorised);
  return (spec ? Finding::wrong : Finding::unknown)(
      "permissions", trial.pool, right + " would be refused: " + error.message(), remedy_of(error));
}

Finding missing(const std::string& rights, const std::string& what) {
  return Finding::unknown("permissions", "",
                          rights + " can be asked about only with " + what + " of this deployment",
                          "run doctor again when there is one");
}

}  // namespace

void check_permissions(aws::Ec2& ec2, const DoctorFacts& facts, const core::Observed& observed,
                       std::vector<Finding>& findings) {
  std::vector<Trial> trials;
  Wanted wanted;
  for (const auto& pool : facts.desired.pools) {
    add_creates(pool, facts, observed, trials);
    wanted.copies |= pool.stock.golden;
    wanted.snapshots |= pool.volumes.snapshot_unclean;
    wanted.launches |= pool.launch.has_value();
    wanted.launch_volumes |= pool.launch && pool.launch->volume_with_launch;
    wanted.fleets |= pool.launch && pool.launch->instance_types.size() > 1;
  }
  const bool has_template = observed.templates && !observed.templates->empty();
  if (wanted.fleets && has_template)
    trials.push_back({aws::DeleteLaunchTemplate{observed.templates->front().launch_template_id}, "",
                      "removes launch templates that no spec uses any more"});
  const Subjects on = subjects_in(facts, observed);
  add_uses(facts.desired.deployment, on, wanted, trials);
  int launches = 0;
  int untried = 0;
  for (const Trial& trial : trials) {
    if (std::holds_alternative<aws::RunInstances>(trial.call) && launches++ >= kMostLaunches) {
      ++untried;
      continue;
    }
    const std::string right = "ec2:" + std::string(core::action_name(trial.call));
    const Ok allowed = ec2.dry_run(trial.call);
    if (!allowed && trial.variant &&
        aws::reaction_for(allowed.error().code, "RunInstances") == aws::Reaction::change)
      continue;
    findings.push_back(
        allowed ? Finding::ok("permissions", trial.pool, right + " is allowed, which " + trial.need)
                : answered(trial, right, allowed.error()));
  }
  if (untried > 0)
    findings.push_back(
        Finding::unknown("permissions", "",
                         std::to_string(untried) + " launches were not tried after " +
                             std::to_string(kMostLaunches) + ": EC2 counts a dry run like a launch",
                         "run doctor with a spec of the other pools alone"));
  if (wanted.fleets && !has_template)
    findings.push_back(missing("ec2:DeleteLaunchTemplate", "a launch template"));
  if (on.volume.empty())
    findings.push_back(
        missing("ec2:CreateTags, ec2:DeleteTags, ec2:DeleteVolume and ec2:CreateSnapshot (which "
                "only `ami import` needs)",
                "a volume"));
  if (on.volume.empty() || on.instance.empty())
    findings.push_back(
        missing("ec2:AttachVolume and ec2:DetachVolume", "a volume and a running instance"));
  if (on.own_instance.empty())
    findings.push_back(
        missing("ec2:TerminateInstances and ec2:ModifyInstanceAttribute", "a running instance"));
}

}  // namespace warmroot::manager
