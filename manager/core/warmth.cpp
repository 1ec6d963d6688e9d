#include "manager/core/warmth.hpp"

#include <cstdlib>

#include "manager/core/filling_facts.hpp"

namespace warmroot::core {

namespace {

constexpr int kAll = 100;

/// It got there, or is there no more: a needed block may have been found later.
bool is_news(std::optional<int> known, int percent) {
  return !known || std::abs(percent - *known) >= kWarmthStep ||
         (percent == kAll) != (*known == kAll);
}

}  // namespace

void keep_warmth(Draft& draft) {
  for (const auto& [instance_id, report] : draft.observed.reports) {
    if (!report.warmth) continue;
    const auto* lease = draft.lease_on(instance_id);
    if (!lease || !holds_volume(lease->state) || lease->volume_id != report.volume_id) continue;
    const auto* owned = draft.ledger.volumes.get(report.volume_id);
    const int percent = static_cast<int>(*report.warmth * kAll);  // 100 only when nothing is absent
    if (owned && is_news(owned->warmth, percent))
      draft.record(RecordWarmth{report.volume_id, percent});
  }
}

std::optional<int> warmth_of(const Draft& draft, const std::string& volume_id) {
  if (is_filled(draft, volume_id)) return kAll;
  const auto* owned = draft.ledger.volumes.get(volume_id);
  return owned ? owned->warmth : std::nullopt;
}

}  // namespace warmroot::core
