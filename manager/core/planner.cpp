// Runs the rules and then says what the result looks like: rows, notes, whether it is stable, when
// to look again.
#include "manager/core/planner.hpp"

#include <algorithm>

#include "manager/core/adopting.hpp"
#include "manager/core/backoff.hpp"
#include "manager/core/census.hpp"
#include "manager/core/draft.hpp"
#include "manager/core/healing.hpp"
#include "manager/core/launch_limits.hpp"
#include "manager/core/launching.hpp"
#include "manager/core/leasing.hpp"
#include "manager/core/moving.hpp"
#include "manager/core/ordering.hpp"
#include "manager/core/placing.hpp"
#include "manager/core/proving.hpp"
#include "manager/core/retiring.hpp"
#include "manager/core/rollout.hpp"
#include "manager/core/standing.hpp"
#include "manager/core/stocking.hpp"
#include "manager/core/templates.hpp"
#include "manager/core/unclean.hpp"
#include "manager/core/warmth.hpp"

namespace warmroot::core {

namespace {

void note_observation(Draft& draft) {
  for (const auto& text : draft.observed.notes) {
    draft.note(NoteKind::look_failed, "", "", text, !draft.observed.complete);
    draft.plan.notes.back().passes = true;
  }
  for (const auto& pool : draft.pools)
    for (const auto& problem : pool.source.problems)
      draft.note(NoteKind::source_problem, pool.spec->name, "", problem, true);
}

/// A refusal matters while what it stood in the way of is still missing.
bool still_matters(Draft& draft, const std::string& resource) {
  if (const auto* volume = draft.observed.volumes.get(resource); volume)
    return !has_tag(volume->tags, kTagQuarantined);
  if (draft.find_instance(resource)) return true;
  if (const auto subject = stock_subject_from(resource)) {
    const auto* of = draft.find_pool(subject->pool);
    return of && !stock_settled(*of, *subject);
  }
  const auto* pool = draft.find_pool_of(resource);
  const auto* node = pool ? pool->find_node(resource) : nullptr;
  return node && !node_settled(draft, *node);
}

std::string waits_for(const Failure& failure, Instant retry) {
  return failure.sentence + "; tried " + std::to_string(failure.count) +
         (failure.count == 1 ? " time" : " times") + ", again at " + time_of_day(retry);
}

/// One note for each refusal, however many nodes it hit: a launch of 100 is refused once.
void note_failures(Draft& draft) {
  std::map<std::string, std::pair<std::size_t, int>> notes;  // sentence to its note and nodes
  for (const auto& [key, failure] : draft.ledger.failures) {
    const auto resource = key.substr(key.find('/') + 1);
    if (!still_matters(draft, resource)) continue;
    const auto [seen, is_new] = notes.try_emplace(failure.sentence, draft.plan.notes.size(), 1);
    if (!is_new) {
      ++seen->second.second;
      continue;
    }
    const auto* owner = draft.find_pool_of(resource);
    const std::string pool = owner ? owner->spec->name : "";
    draft.note(NoteKind::refused_call, pool, pool.empty() ? "" : resource,
               waits_for(failure, retry_at(failure, key)), !failure.transient);
  }
  for (const auto& [sentence, place] : notes)
    if (place.second > 1)
      draft.plan.notes[place.first].text +=
          " (the same for " + std::to_string(place.second - 1) + " more)";
}

/// What the nodes themselves say is wrong.
void note_reports(Draft& draft) {
  for (const auto& [id, instance] : draft.instances) {
    const auto* report = draft.report_of(id);
    const auto* held = draft.lease_on(id);
    if (!report || !held || report->stage != NodeStage::failed) continue;
    draft.note(NoteKind::bootstrap_failed, held->pool, held->node,
               "the bootstrap on " + id +
                   " failed, sessions there land on the base system: " + report->message,
               false);
  }
}

void note_undecided(Draft& draft) {
  for (const auto& intent : draft.ledger.intents) {
    if (intent.state != IntentState::unknown) continue;
    draft.note(
        NoteKind::undecided_call, intent.pool, intent.nodes.size() == 1 ? intent.nodes.front() : "",
        intent.call.action + " has no clear answer yet and is sent again: " + intent.error, true);
    draft.plan.notes.back().passes = true;
  }
}

}  // namespace

Plan plan(const Desired& desired, const Observed& observed, const LedgerView& ledger, Instant now,
          const Limits& limits) {
  Draft draft(desired, observed, ledger, now, limits);
  note_observation(draft);
  find_beyond_repair(draft);
  take_census(draft);
  settle_leases(draft);
  judge_launches(draft);
  keep_warmth(draft);
  if (!limits.orders_only) {
    move_nodes(draft);
    adopt(draft);
  }
  place(draft);
  draft.plan.nodes_now = rows_before_actions(draft);
  obey(draft);
  heal(draft);
  if (limits.orders_only) {
    lease_as_ordered(draft);
  } else {
    roll_out(draft);
    take_spares(draft);
    lease(draft);
    keep_templates(draft);
    launch(draft);
    retire(draft);
    stock(draft);
    name_claimed(draft);
  }
  tell_costs(draft);
  note_failures(draft);
  note_reports(draft);
  note_undecided(draft);
  describe_result(draft);
  for (const auto& order : ledger.orders) draft.plan.orders.push_back(order.id);
  if (!observed.complete) {
    draft.plan.records.clear();
    draft.plan.watches.clear();
    draft.plan.drains.clear();
  }
  return std::move(draft.plan);
}

}  // namespace warmroot::core
