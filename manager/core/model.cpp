// Names of the core's enums, and the one table of the words that operators see.
#include "manager/core/model.hpp"

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

std::string_view action_name(const aws::Mutation& mutation) {
  // In the order of the variant's members.
  constexpr std::string_view kNames[] = {"RunInstances", "CreateVolume", "AttachVolume",
                                         "DetachVolume", "DeleteVolume", "TerminateInstances",
                                         "CreateTags",   "DeleteTags"};
  static_assert(std::size(kNames) == std::variant_size_v<aws::Mutation>);
  return kNames[mutation.index()];
}

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

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
};

}  // namespace

std::vector<std::string> resource_ids(const aws::Mutation& mutation) {
  return std::visit(IdList{}, mutation);
}

std::string token_of(const aws::Mutation& mutation) {
  if (const auto* run = std::get_if<aws::RunInstances>(&mutation)) return run->client_token;
  if (const auto* create = std::get_if<aws::CreateVolume>(&mutation)) return create->client_token;
  return {};
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
    {V::spare, {"spare", "of no node of the present spec; kept"}},
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

std::string failure_key(std::string_view action, std::string_view resource) {
  return std::string(action) + "/" + std::string(resource);
}

std::string generation_key(std::string_view action, std::string_view node) {
  return std::string(action) + "/" + std::string(node);
}

}  // namespace warmroot::core
