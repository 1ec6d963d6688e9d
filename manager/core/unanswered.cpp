#include "manager/core/unanswered.hpp"

#include <algorithm>

#include "manager/core/backoff.hpp"
#include "manager/core/draft.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

/// A replay that got no answer again waits a little longer each time.
constexpr Milliseconds kReplayBase{200};
constexpr Milliseconds kReplayCap{30'000};
/// Half of what was seen of CreateVolume's. Source: reference ec2.md 1.4, about 12 h.
constexpr Milliseconds kTokenKnownFor{6 * 3'600'000};

Instant replay_at(const Intent& intent) {
  const double jitter = hash_fraction({std::to_string(intent.id), std::to_string(intent.attempts)});
  return intent.tried + backoff_delay(intent.attempts, kReplayBase, kReplayCap, jitter);
}

bool attaches(const Intent& intent) {
  return intent.call.action == "AttachVolume";
}

bool launches_at_all(const std::string& pool, const UnansweredFacts& facts) {
  if (facts.paused_pools.contains(pool)) return false;
  const auto& pools = facts.desired.pools;
  return std::any_of(pools.begin(), pools.end(), [&](const PoolSpec& spec) {
    return spec.name == pool && spec.launch && spec.running > 0;
  });
}

/// The instance, or nullptr; but for the disks that instances boot from, which may carry our tags.
const std::string* shown_on(const aws::Volume& volume, const UnansweredFacts& facts) {
  const auto* attachment = attachment_of(volume);
  if (!attachment) return nullptr;
  const auto* instance = facts.instances.get(attachment->instance_id);
  const bool is_root = instance && instance->root_device_name == attachment->device;
  return is_root ? nullptr : &attachment->instance_id;
}

bool may_be_sent_again(const Intent& intent, const UnansweredFacts& facts, Instant now) {
  const bool launches = intent.call.action == "RunInstances" || intent.call.action == "CreateFleet";
  if (launches && !launches_at_all(intent.pool, facts)) return false;
  if (!intent.token.empty()) return now - intent.recorded < kTokenKnownFor;
  if (intent.resources.empty()) return true;
  if (!attaches(intent) || now - intent.recorded > kPlanExpires) return false;
  const auto* volume = facts.volumes.get(intent.resources.front());
  const auto* instance = volume ? shown_on(*volume, facts) : nullptr;
  return !instance || *instance == intent.resources.back();
}

/// EC2 shows another volume on the instance that this one was to be attached to.
bool is_taken(const Intent& intent, const UnansweredFacts& facts) {
  if (!attaches(intent) || intent.resources.empty()) return false;
  return std::any_of(facts.volumes.begin(), facts.volumes.end(), [&](const auto& shown) {
    const auto* instance = shown_on(shown.second, facts);
    return instance && *instance == intent.resources.back() &&
           shown.first != intent.resources.front();
  });
}

}  // namespace

bool may_yet_be_carried_out(Instant silent, Instant now) {
  return now - silent < kCarriedOutWithin;
}

Unanswered becomes_of(const Intent& intent, const UnansweredFacts& facts, Instant now) {
  const bool is_old = now - intent.recorded > kPlanExpires;
  // The instance is kept from other volumes meanwhile.
  if (attaches(intent) && is_old && may_yet_be_carried_out(intent.silent, now))
    return Unanswered::rests;
  if (!may_be_sent_again(intent, facts, now)) return Unanswered::withdrawn;
  if (now < replay_at(intent) || is_taken(intent, facts)) return Unanswered::rests;
  return Unanswered::again;
}

}  // namespace warmroot::core
