// Only instances that report can hand over; one that is silent is left alone until it is
// interrupted.
#include "manager/core/replacing.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace warmroot::core {

namespace {

/// The pool of a running instance, if it acts on hints.
const PoolDraft* acting_pool(Draft& draft, const std::string& id) {
  const auto* seen = draft.observed.instances.get(id);
  if (!seen || seen->state != aws::InstanceState::running) return nullptr;
  const auto* pool = draft.find_pool(tag_of(seen->tags, kTagPool));
  return pool && pool->spec->launch && pool->spec->launch->replace_on_rebalance ? pool : nullptr;
}

bool is_too_young(Draft& draft, const PoolDraft& pool, const std::string& id) {
  const auto* seen = draft.observed.instances.get(id);
  if (!seen || !seen->launch_time) return false;
  const Instant due = *seen->launch_time + pool.spec->launch->rebalance_after;
  if (draft.now >= due) return false;
  draft.wake_at(due);
  return true;
}

}  // namespace

std::set<std::string> replaced_now(Draft& draft) {
  std::vector<std::pair<Instant, std::string>> hints;
  std::map<std::string, int> leaving;  // by pool: those that leave whatever we do
  for (const auto& [id, departure] : draft.ledger.departures)
    if (departure.advised)
      hints.emplace_back(departure.since, id);
    else if (const auto* pool = acting_pool(draft, id))
      ++leaving[pool->spec->name];
  for (const auto& [id, warning] : draft.observed.warnings)
    if (warning.kind == WarningKind::rebalance && !draft.ledger.departures.contains(id))
      hints.emplace_back(draft.now, id);
  std::sort(hints.begin(), hints.end());
  std::set<std::string> replaced;
  for (const auto& [since, id] : hints) {
    const auto* pool = acting_pool(draft, id);
    if (!pool || !draft.fresh_report_of(id) || is_too_young(draft, *pool, id)) continue;
    if (leaving[pool->spec->name]++ < pool->spec->rollout.max_unavailable) replaced.insert(id);
  }
  return replaced;
}

}  // namespace warmroot::core
