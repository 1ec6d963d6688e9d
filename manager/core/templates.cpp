// The list of templates is the authority: whether one exists is never remembered.
#include "manager/core/templates.hpp"

#include <algorithm>
#include <set>

#include "manager/core/launch_calls.hpp"
#include "manager/core/leasing.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

constexpr std::size_t kHashDigits = 16;

bool may_use_fleets(const PoolDraft& pool) {
  return pool.spec->launch && pool.spec->launch->instance_types.size() > 1;
}

/// The refusal by permission of `action` for the pool that still counts, or nullptr.
const Failure* forbidden(const Draft& draft, const char* action, const std::string& pool) {
  const auto failure = draft.ledger.failures.find(failure_key(action, pool));
  if (failure == draft.ledger.failures.end()) return nullptr;
  const bool lasts = failure->second.code == "UnauthorizedOperation" &&
                     draft.now - failure->second.last < kForbiddenAgain;
  return lasts ? &failure->second : nullptr;
}

const aws::LaunchTemplate* listed(const Draft& draft, const std::string& name) {
  if (!draft.observed.templates) return nullptr;
  for (const auto& one : *draft.observed.templates)
    if (one.name == name) return &one;
  return nullptr;
}

bool has_something_to_launch(Draft& draft, const PoolDraft& pool) {
  return std::any_of(pool.nodes.begin(), pool.nodes.end(), [&](const NodeDraft& node) {
    return node.wanted && !serving_lease(draft, node);
  });
}

std::string watch_of(const std::string& name) {
  return kWatchTemplate + name;
}

void make_template(Draft& draft, const PoolDraft& pool, const std::string& name) {
  const auto& pool_name = pool.spec->name;
  const auto watch = watch_of(name);
  if (draft.ledger.watches.contains(watch)) {
    draft.hold(watch);  // the observer looks for it soon
    return;
  }
  if (draft.backing_off("CreateLaunchTemplate", pool_name)) return;
  aws::CreateLaunchTemplate call;
  call.name = name;
  call.launch = launch_contents(draft.observed, *pool.spec);
  call.client_token = client_token({draft.desired.deployment, "CreateLaunchTemplate", pool_name,
                                    name, draft.generation("CreateLaunchTemplate", pool_name), ""});
  call.tags = {{kTagDeployment, draft.desired.deployment}, {kTagPool, pool_name}};
  if (draft.act(std::move(call), pool_name, {},
                "CreateFleet needs a launch template to choose among types"))
    draft.hold(watch);
}

void delete_unused(Draft& draft, const std::set<std::string>& used) {
  for (const auto& one : *draft.observed.templates) {
    const auto& pool = tag_of(one.tags, kTagPool);
    if (tag_of(one.tags, kTagDeployment) != draft.desired.deployment || used.contains(one.name))
      continue;
    const auto deleted = watch_of("deleted/" + one.launch_template_id);
    if (draft.ledger.watches.contains(deleted)) {
      draft.hold(deleted);
      continue;
    }
    const Watch unused = draft.hold("unused-template/" + one.launch_template_id);
    if (draft.now - unused.since < kTemplateGrace) {
      draft.wake_at(unused.since + kTemplateGrace);
      continue;
    }
    if (draft.undecided(one.launch_template_id) ||
        draft.backing_off("DeleteLaunchTemplate", one.launch_template_id))
      continue;
    if (draft.act(aws::DeleteLaunchTemplate{one.launch_template_id}, pool, {},
                  "launch template " + one.name + " is of an earlier spec"))
      draft.hold(deleted);
  }
}

void note_forbidden(Draft& draft, const PoolDraft& pool) {
  for (const char* action : {"CreateLaunchTemplate", "CreateFleet"})
    if (forbidden(draft, action, pool.spec->name)) {
      draft.note(NoteKind::fleets_forbidden, pool.spec->name, "",
                 std::string("ec2:") + action +
                     " is not allowed, so EC2 cannot choose among the types and they are tried "
                     "one after another: allow it, or name one type",
                 false);
      return;
    }
}

}  // namespace

std::string template_name(const Draft& draft, const PoolSpec& pool) {
  const auto contents = launch_contents(draft.observed, pool);
  std::vector<std::string> fields{draft.desired.deployment,  pool.name,
                                  contents.image_id,         contents.key_name,
                                  contents.instance_profile, contents.user_data};
  fields.insert(fields.end(), contents.security_group_ids.begin(),
                contents.security_group_ids.end());
  return "warmroot-" + pool.name + "-" + hash_text(fields).substr(0, kHashDigits);
}

FleetChoice choose_fleet(Draft& draft, const PoolDraft& pool) {
  const auto& name = pool.spec->name;
  if (!may_use_fleets(pool) || !draft.observed.templates || forbidden(draft, "CreateFleet", name) ||
      forbidden(draft, "CreateLaunchTemplate", name))
    return {};
  const auto wanted = template_name(draft, *pool.spec);
  if (const auto* found = listed(draft, wanted))
    return {FleetWay::fleet, found->launch_template_id};
  if (draft.ledger.failures.contains(failure_key("CreateLaunchTemplate", name))) return {};
  const auto watch = draft.ledger.watches.find(watch_of(wanted));
  const bool late =
      watch != draft.ledger.watches.end() && draft.now - watch->second.since >= kTemplateWait;
  return {late ? FleetWay::runs : FleetWay::wait, ""};
}

void keep_templates(Draft& draft) {
  if (!draft.observed.complete) return;
  std::set<std::string> used;
  for (const auto& pool : draft.pools) {
    if (!may_use_fleets(pool)) continue;
    note_forbidden(draft, pool);
    if (!draft.observed.templates) continue;
    // The name is a hash over some kilobytes: not for a pool that needs none.
    if (draft.observed.templates->empty() && !has_something_to_launch(draft, pool)) continue;
    const auto name = template_name(draft, *pool.spec);
    used.insert(name);
    const bool wanted = pool.source.may_launch && !draft.looking_around() && !listed(draft, name) &&
                        has_something_to_launch(draft, pool) &&
                        !forbidden(draft, "CreateLaunchTemplate", pool.spec->name) &&
                        !forbidden(draft, "CreateFleet", pool.spec->name);
    if (wanted) make_template(draft, pool, name);
  }
  if (draft.observed.templates) delete_unused(draft, used);
}

}  // namespace warmroot::core
