// May we? Each call that the spec needs goes out as a dry run, on something of ours where the call
// needs something: EC2 tells an unknown id before it looks at rights.
#include <algorithm>

#include "manager/aws/ec2_codec.hpp"
#include "manager/core/importing.hpp"
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
};

bool says(std::string_view message, std::string_view words) {
  return message.find(words) != std::string_view::npos;
}

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

aws::RunInstances launch_of(const core::PoolSpec& pool, const DoctorFacts& facts) {
  const core::LaunchSpec& spec = *pool.launch;
  aws::RunInstances call;
  call.image_id = spec.base_ami;
  if (!spec.instance_types.empty()) call.instance_type = spec.instance_types.front();
  const auto subnet = spec.subnets.find(zone_of(pool));
  if (subnet != spec.subnets.end()) call.subnet_id = subnet->second;
  call.availability_zone = zone_of(pool);
  call.security_group_ids = spec.security_groups;
  call.key_name = spec.key_name;
  call.instance_profile = spec.instance_profile;
  call.max_price = spec.max_price;
  call.instance_tags = tags_of(pool, facts);
  return call;
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
  const aws::RunInstances launch = launch_of(pool, facts);
  trials.push_back({launch, pool.name, "launches instances"});
  if (pool.launch->instance_types.size() < 2) return;
  trials.push_back({aws::CreateLaunchTemplate{"warmroot-doctor", launch, "", tags_of(pool, facts)},
                    pool.name, "prepares fleets of several instance types"});
  aws::CreateFleet fleet;
  fleet.launch_template_id = "lt-00000000000000000";  // none is made for a question
  fleet.launch_template_version = "1";
  for (const std::string& type : pool.launch->instance_types)
    fleet.overrides.push_back({type, launch.subnet_id, launch.availability_zone, ""});
  trials.push_back({fleet, pool.name, "launches fleets"});
}

/// Calls on what is there already.
void add_uses(const std::string& deployment, const std::string& volume, const std::string& instance,
              bool copies, bool snapshots, std::vector<Trial>& trials) {
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
         snapshots ? "keeps volumes as they were left uncleanly"
                   : "`ami import` needs and nothing else",
         !snapshots});
    if (copies)
      trials.push_back(
          {aws::CopyVolumes{volume, 0, "gp3", {}, {}, "", {}}, "", "copies golden volumes"});
  }
  if (!volume.empty() && !instance.empty()) {
    trials.push_back({aws::AttachVolume{volume, instance, "/dev/sdf"}, "", "attaches volumes"});
    trials.push_back({aws::DetachVolume{volume, instance, ""}, "", "detaches volumes"});
  }
  if (instance.empty()) return;
  trials.push_back({aws::TerminateInstances{{instance}}, "", "ends instances"});
  aws::ModifyInstanceAttribute keep;
  keep.instance_id = instance;
  keep.device_name = "/dev/sdf";
  keep.delete_on_termination = false;
  trials.push_back({keep, "", "keeps volumes that a launch made"});
}

/// An answer that is about something else than rights: these are looked at first, or the other way
/// round; EC2 does not say.
Finding answered(const Trial& trial, const std::string& right, const Error& error) {
  if (aws::bare_code(error.code) == "UnauthorizedOperation")
    return {trial.optional ? Verdict::unknown : Verdict::wrong, "permissions", trial.pool,
            right + " is denied, which " + trial.need + ": " + who_denies(error.context)};
  const bool spec = !trial.optional && (error.kind == ErrorKind::misconfigured ||
                                        error.kind == ErrorKind::unauthorised);
  return {spec ? Verdict::wrong : Verdict::unknown, "permissions", trial.pool,
          right + " would be refused: " + error.message()};
}

Finding missing(const std::string& rights, const std::string& what) {
  return {Verdict::unknown, "permissions", "",
          rights + " can be asked about only with " + what +
              " of this deployment: run doctor again when there is one"};
}

}  // namespace

std::string who_denies(std::string_view message) {
  struct Words {
    std::string_view words;
    std::string_view remedy;
  };
  // Source: IAM user guide, "Troubleshoot access denied error messages".
  constexpr Words kKnown[] = {
      {"explicit deny in a service control policy",
       "a service control policy of the organisation denies it, so that no policy of this account "
       "can allow it: ask those who run the organisation"},
      {"explicit deny in a resource control policy",
       "a resource control policy of the organisation denies it: ask those who run the "
       "organisation"},
      {"no service control policy allows",
       "the organisation's service control policies do not allow it: ask those who run the "
       "organisation"},
      {"explicit deny in a permissions boundary",
       "the role's permissions boundary denies it: ask those who set it"},
      {"no permissions boundary allows",
       "the role's permissions boundary does not allow it: ask those who set it"},
      {"explicit deny in a session policy",
       "the session's policy denies it: begin another session"},
      {"no session policy allows", "the session's policy does not allow it: begin another session"},
      {"explicit deny in a VPC endpoint policy", "the VPC endpoint's policy denies it: change it"},
      {"no VPC endpoint policy allows", "the VPC endpoint's policy does not allow it: change it"},
      {"explicit deny in an identity-based policy",
       "a policy of this user or role denies it explicitly: remove that statement; a further Allow "
       "does not help"},
      {"explicit deny in a resource-based policy",
       "a policy of the resource denies it explicitly: change that policy"},
      {"no identity-based policy allows",
       "nothing allows it: add it to the policy of this user or role (templates/iam-policy*.json)"},
  };
  for (const Words& known : kKnown)
    if (says(message, known.words)) return std::string(known.remedy);
  return "EC2 does not say by whom: compare the IAM policy with templates/iam-policy.json; `aws "
         "sts "
         "decode-authorization-message` reads the encoded part of the message, if there is one";
}

void check_permissions(aws::Ec2& ec2, const DoctorFacts& facts, const core::Observed& observed,
                       std::vector<Finding>& findings) {
  std::vector<Trial> trials;
  bool copies = false;
  bool fleets = false;
  bool snapshots = false;
  for (const auto& pool : facts.desired.pools) {
    add_creates(pool, facts, observed, trials);
    copies = copies || pool.stock.golden;
    snapshots = snapshots || pool.volumes.snapshot_unclean;
    fleets = fleets || (pool.launch && pool.launch->instance_types.size() > 1);
  }
  const bool has_template = observed.templates && !observed.templates->empty();
  if (fleets && has_template)
    trials.push_back({aws::DeleteLaunchTemplate{observed.templates->front().launch_template_id}, "",
                      "removes launch templates that no spec uses any more"});
  const std::string volume = observed.volumes.empty() ? "" : observed.volumes.begin()->first;
  const auto runs = std::find_if(
      observed.instances.begin(), observed.instances.end(),
      [](const auto& each) { return each.second.state == aws::InstanceState::running; });
  const std::string instance = runs == observed.instances.end() ? "" : runs->first;
  add_uses(facts.desired.deployment, volume, instance, copies, snapshots, trials);
  for (const Trial& trial : trials) {
    const std::string right = "ec2:" + std::string(core::action_name(trial.call));
    const Ok allowed = ec2.dry_run(trial.call);
    findings.push_back(allowed ? Finding{Verdict::ok, "permissions", trial.pool,
                                         right + " is allowed, which " + trial.need}
                               : answered(trial, right, allowed.error()));
  }
  if (fleets && !has_template)
    findings.push_back(missing("ec2:DeleteLaunchTemplate", "a launch template"));
  if (volume.empty())
    findings.push_back(
        missing("ec2:CreateTags, ec2:DeleteTags, ec2:DeleteVolume and ec2:CreateSnapshot (which "
                "only `ami import` needs)",
                "a volume"));
  if (volume.empty() || instance.empty())
    findings.push_back(
        missing("ec2:AttachVolume and ec2:DetachVolume", "a volume and a running instance"));
  if (instance.empty())
    findings.push_back(
        missing("ec2:TerminateInstances and ec2:ModifyInstanceAttribute", "a running instance"));
}

}  // namespace warmroot::manager
