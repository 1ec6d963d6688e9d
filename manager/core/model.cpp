// Names of the core's enums, and the one table of the words that operators see.
#include "manager/core/model.hpp"

#include "bootstrap/base/words.hpp"

namespace warmroot::core {

std::string_view to_string(LeaseState state) {
  switch (state) {
    case LeaseState::reserved:
      return "reserved";
    case LeaseState::attaching:
      return "attaching";
    case LeaseState::checking:
      return "checking";
    case LeaseState::active:
      return "active";
    case LeaseState::leaving:
      return "leaving";
    case LeaseState::ended:
      return "ended";
  }
  return "ended";
}

std::optional<LeaseState> lease_state_from(std::string_view text) {
  for (const LeaseState state : {LeaseState::reserved, LeaseState::attaching, LeaseState::checking,
                                 LeaseState::active, LeaseState::leaving, LeaseState::ended})
    if (to_string(state) == text) return state;
  return std::nullopt;
}

std::string_view to_string(InstanceFate fate) {
  switch (fate) {
    case InstanceFate::proved:
      return "proved";
    case InstanceFate::failed:
      return "failed";
    case InstanceFate::fresh:
      break;
  }
  return "fresh";
}

InstanceFate instance_fate_from(std::string_view text) {
  for (const InstanceFate fate : {InstanceFate::proved, InstanceFate::failed})
    if (to_string(fate) == text) return fate;
  return InstanceFate::fresh;
}

std::string_view to_string(IntentState state) {
  switch (state) {
    case IntentState::open:
      return "open";
    case IntentState::unknown:
      return "unknown";
    case IntentState::accepted:
      return "accepted";
    case IntentState::refused:
      return "refused";
  }
  return "unknown";
}

std::string_view to_string(VolumeRole role) {
  switch (role) {
    case VolumeRole::node:
      return "node";
    case VolumeRole::spare:
      return "spare";
    case VolumeRole::golden:
      return "golden";
    case VolumeRole::retired:
      return "retired";
  }
  return "node";
}

std::optional<VolumeRole> volume_role_from(std::string_view text) {
  for (const VolumeRole role :
       {VolumeRole::node, VolumeRole::spare, VolumeRole::golden, VolumeRole::retired})
    if (to_string(role) == text) return role;
  return std::nullopt;
}

std::string_view to_string(OrderKind kind) {
  switch (kind) {
    case OrderKind::attach:
      return "attach";
    case OrderKind::release:
      return "release";
    case OrderKind::quarantine:
      return "quarantine";
    case OrderKind::return_volume:
      return "return";
    case OrderKind::delete_volume:
      return "delete";
  }
  return "attach";
}

std::optional<OrderKind> order_kind_from(std::string_view text) {
  using enum OrderKind;
  for (const OrderKind kind : {attach, release, quarantine, return_volume, delete_volume})
    if (to_string(kind) == text) return kind;
  return std::nullopt;
}

std::string_view action_name(const aws::Mutation& mutation) {
  // In the order of the variant's members.
  constexpr std::string_view kNames[] = {
      "RunInstances", "CreateVolume",         "AttachVolume",         "DetachVolume",
      "DeleteVolume", "TerminateInstances",   "CreateTags",           "DeleteTags",
      "CreateFleet",  "CreateLaunchTemplate", "DeleteLaunchTemplate", "ModifyInstanceAttribute",
      "CopyVolumes",  "CreateSnapshot",       "StopInstances"};
  static_assert(std::size(kNames) == std::variant_size_v<aws::Mutation>);
  return kNames[mutation.index()];
}

namespace {

struct ResourceText {
  std::string operator()(const aws::RunInstances& call) const {
    return std::to_string(call.max_count) + " x " + call.instance_type + " in " +
           (call.availability_zone.empty() ? call.subnet_id : call.availability_zone);
  }
  std::string operator()(const aws::CreateVolume& call) const {
    return "from " + call.snapshot_id + " in " + call.availability_zone;
  }
  std::string operator()(const aws::AttachVolume& call) const {
    return call.volume_id + " to " + call.instance_id + " as " + call.device;
  }
  std::string operator()(const aws::DetachVolume& call) const {
    return call.volume_id + " from " + call.instance_id;
  }
  std::string operator()(const aws::DeleteVolume& call) const { return call.volume_id; }
  std::string operator()(const aws::TerminateInstances& call) const {
    return joined(call.instance_ids);
  }
  std::string operator()(const aws::CreateTags& call) const { return joined(call.resource_ids); }
  std::string operator()(const aws::DeleteTags& call) const { return joined(call.resource_ids); }
  std::string operator()(const aws::CreateFleet& call) const {
    const std::string count = std::to_string(call.target_capacity) + " x ";
    if (call.overrides.size() != 1)
      return count + "any of " + std::to_string(call.overrides.size()) + " types and zones";
    const aws::FleetOverride& one = call.overrides.front();
    return count + one.instance_type + " in " +
           (one.availability_zone.empty() ? one.subnet_id : one.availability_zone);
  }
  std::string operator()(const aws::CreateLaunchTemplate& call) const { return call.name; }
  std::string operator()(const aws::DeleteLaunchTemplate& call) const {
    return call.launch_template_id;
  }
  std::string operator()(const aws::ModifyInstanceAttribute& call) const {
    if (call.delete_on_termination)
      return call.device_name + " of " + call.instance_id +
             (*call.delete_on_termination ? " ends with it" : " outlives it");
    const bool protect = call.disable_api_termination.value_or(false);
    return call.instance_id + (protect ? " protected from termination" : " may be terminated");
  }
  std::string operator()(const aws::CopyVolumes& call) const {
    return "of " + call.source_volume_id;
  }
  std::string operator()(const aws::CreateSnapshot& call) const { return "of " + call.volume_id; }
  std::string operator()(const aws::StopInstances& call) const { return joined(call.instance_ids); }
};

using Ids = std::vector<std::string>;

struct IdList {
  Ids operator()(const aws::RunInstances&) const { return {}; }
  Ids operator()(const aws::CreateVolume&) const { return {}; }
  Ids operator()(const aws::AttachVolume& call) const { return {call.volume_id, call.instance_id}; }
  Ids operator()(const aws::DetachVolume& call) const { return {call.volume_id, call.instance_id}; }
  Ids operator()(const aws::DeleteVolume& call) const { return {call.volume_id}; }
  Ids operator()(const aws::TerminateInstances& call) const { return call.instance_ids; }
  Ids operator()(const aws::CreateTags& call) const { return call.resource_ids; }
  Ids operator()(const aws::DeleteTags& call) const { return call.resource_ids; }
  Ids operator()(const aws::CreateFleet&) const { return {}; }
  Ids operator()(const aws::CreateLaunchTemplate&) const { return {}; }
  Ids operator()(const aws::DeleteLaunchTemplate& call) const { return {call.launch_template_id}; }
  Ids operator()(const aws::ModifyInstanceAttribute& call) const { return {call.instance_id}; }
  Ids operator()(const aws::CopyVolumes& call) const { return {call.source_volume_id}; }
  Ids operator()(const aws::CreateSnapshot& call) const { return {call.volume_id}; }
  Ids operator()(const aws::StopInstances& call) const { return call.instance_ids; }
};

}  // namespace

std::vector<std::string> resource_ids(const aws::Mutation& mutation) {
  return std::visit(IdList{}, mutation);
}

std::string token_of(const aws::Mutation& mutation) {
  return std::visit(
      [](const auto& call) -> std::string {
        if constexpr (requires { call.client_token; }) return call.client_token;
        return {};
      },
      mutation);
}

std::string resource_of(const aws::Mutation& mutation) {
  return std::visit(ResourceText{}, mutation);
}

namespace {

template <typename Condition>
struct Row {
  Condition condition;
  Words words;
};

using N = NodeCondition;
constexpr Row<N> kNodeWords[] = {
    {N::asleep, {"asleep", "its volume is kept, no instance is wanted"}},
    {N::no_volume, {"no-volume", "no volume yet; the next reconcile asks for it"}},
    {N::creating, {"creating", "its volume is being created"}},
    {N::no_instance, {"no-instance", "its volume is free, no instance is there yet"}},
    {N::launching, {"launching", "an instance for it was asked for"}},
    {N::waiting, {"waiting", "its instance runs and waits for the volume"}},
    {N::attaching, {"attaching", "its volume is being attached"}},
    {N::checking, {"checking", "attached; the instance has not reported a mounted root"}},
    {N::active, {"active", "the instance has mounted the volume"}},
    {N::handover, {"handover", "its instance is going, a successor is there or coming"}},
    {N::leaving, {"leaving", "its instance is going, the volume comes back"}},
    {N::blocked, {"blocked", "it cannot be served; see the notes"}},
};

using V = VolumeCondition;
constexpr Row<V> kVolumeWords[] = {
    {V::creating, {"creating", "EC2 is making it"}},
    {V::free, {"free", "available to its node"}},
    {V::attaching, {"attaching", "on its way to an instance"}},
    {V::in_use, {"in-use", "attached to an instance"}},
    {V::detaching, {"detaching", "on its way off an instance"}},
    {V::busy, {"busy", "detach asked for, the guest still holds it"}},
    {V::error, {"error", "EC2 reports an error; it is not used again"}},
    {V::quarantined, {"quarantined", "set aside; not used until its tag is removed"}},
    {V::missing, {"missing", "recorded, but EC2 does not show it"}},
    {V::ready, {"ready", "of no node yet; kept for the next that needs one, or to copy from"}},
    {V::retired, {"retired", "replaced by a newer one; kept until you delete it"}},
    {V::parked, {"parked", "left behind by a node that changed its zone; kept for its return"}},
    {V::unclaimed, {"unclaimed", "of no node of the present spec; kept"}},
};

template <typename Condition, std::size_t kSize>
Words look_up(const Row<Condition> (&table)[kSize], Condition condition) {
  for (const auto& row : table)
    if (row.condition == condition) return row.words;
  check_failed("condition has a row", __FILE__, __LINE__);
}

}  // namespace

bool needs_operator(const Note& note) {
  return note.blocking && !note.passes;
}

Words describe(NodeCondition condition) {
  return look_up(kNodeWords, condition);
}

Words describe(VolumeCondition condition) {
  return look_up(kVolumeWords, condition);
}

std::string node_name(std::string_view pool, int index) {
  return std::string(pool) + "-" + std::to_string(index);
}

std::string to_string(const StockSubject& subject) {
  return subject.pool + "/" + std::string(to_string(subject.role)) + "/" + subject.zone;
}

std::optional<StockSubject> stock_subject_from(std::string_view text) {
  const auto first = text.find('/');
  const auto second = first == text.npos ? text.npos : text.find('/', first + 1);
  if (second == text.npos) return std::nullopt;
  const auto role = volume_role_from(text.substr(first + 1, second - first - 1));
  if (role != VolumeRole::spare && role != VolumeRole::golden) return std::nullopt;
  return StockSubject{std::string(text.substr(0, first)), *role,
                      std::string(text.substr(second + 1))};
}

std::string failure_key(std::string_view action, std::string_view resource) {
  return std::string(action) + "/" + std::string(resource);
}

std::string generation_key(std::string_view action, std::string_view node) {
  return std::string(action) + "/" + std::string(node);
}

std::string_view to_string(NoteKind kind) {
  switch (kind) {
    case NoteKind::look_failed:
      return "look_failed";
    case NoteKind::source_problem:
      return "source_problem";
    case NoteKind::frozen:
      return "frozen";
    case NoteKind::volume_claimed_twice:
      return "volume_claimed_twice";
    case NoteKind::volume_beyond:
      return "volume_beyond";
    case NoteKind::lineage_changed:
      return "lineage_changed";
    case NoteKind::stranger:
      return "stranger";
    case NoteKind::volume_gone:
      return "volume_gone";
    case NoteKind::volume_not_shown:
      return "volume_not_shown";
    case NoteKind::pool_unnamed:
      return "pool_unnamed";
    case NoteKind::deleted_with_instance:
      return "deleted_with_instance";
    case NoteKind::attached_elsewhere:
      return "attached_elsewhere";
    case NoteKind::still_mounted:
      return "still_mounted";
    case NoteKind::quarantined:
      return "quarantined";
    case NoteKind::volume_error:
      return "volume_error";
    case NoteKind::nobody_launched:
      return "nobody_launched";
    case NoteKind::names_used_up:
      return "names_used_up";
    case NoteKind::not_ours_to_end:
      return "not_ours_to_end";
    case NoteKind::refused_call:
      return "refused_call";
    case NoteKind::bootstrap_failed:
      return "bootstrap_failed";
    case NoteKind::undecided_call:
      return "undecided_call";
    case NoteKind::no_capacity:
      return "no_capacity";
    case NoteKind::launch_limit:
      return "launch_limit";
    case NoteKind::breaker_open:
      return "breaker_open";
    case NoteKind::rollout:
      return "rollout";
    case NoteKind::stock_outdated:
      return "stock_outdated";
    case NoteKind::encryption_differs:
      return "encryption_differs";
    case NoteKind::stock_waits:
      return "stock_waits";
    case NoteKind::fleets_forbidden:
      return "fleets_forbidden";
    case NoteKind::zone_moved:
      return "zone_moved";
    case NoteKind::extra_instance:
      return "extra_instance";
    case NoteKind::no_snapshot:
      return "no_snapshot";
  }
  return "look_failed";
}

}  // namespace warmroot::core
