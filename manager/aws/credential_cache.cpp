// See credential_cache.hpp.
#include "manager/aws/credential_cache.hpp"

#include <algorithm>

namespace warmroot::aws {
namespace {

/// Between two tries to renew while there is time, and when there is not.
constexpr std::chrono::seconds kCalmPause{60};
constexpr std::chrono::seconds kUrgentPause{5};
/// After a look that found nothing at all.
constexpr std::chrono::seconds kNothingPause{1};
/// A refusal makes us look anew at most this often.
constexpr std::chrono::seconds kRefusedPause{5};
/// An instance's keys that have ended stay in use, and new ones are asked for after this plus up to
/// eight minutes at random, so that not all managers ask together. Source: botocore.
constexpr std::chrono::minutes kStalePause{2};
constexpr std::chrono::minutes kStaleSpread{8};

bool ended(const FoundCredentials& found, Instant now) {
  return found.expires && *found.expires <= now;
}

}  // namespace

CredentialCache::CredentialCache(Finder find, std::function<Instant()> now,
                                 std::function<double()> random)
    : find_(std::move(find)), now_(std::move(now)), random_(std::move(random)) {}

bool CredentialCache::wants_new(Instant now) const {
  if (refused_) return true;
  if (!held_) return now >= next_try_;
  if (!held_->expires || *held_->expires - now > renew_before_) return false;
  return now >= next_try_;
}

void CredentialCache::take(FoundCredentials found, Instant now) {
  renew_before_ = kRenewBefore;
  renew_urgently_ = kRenewUrgently;
  if (found.expires && *found.expires > now) {
    const Milliseconds life = *found.expires - now;
    renew_before_ = std::min(renew_before_, life / 3);
    renew_urgently_ = std::min(renew_urgently_, life / 5);
  }
  held_ = std::move(found);
  failure_.reset();
  next_try_ = now;
}

/// After a look that brought nothing better than what is held.
void CredentialCache::plan_retry(Instant now) {
  if (!held_) {
    next_try_ = now + kNothingPause;
  } else if (ended(*held_, now)) {
    const auto spread = std::chrono::duration_cast<Milliseconds>(kStaleSpread * random_());
    next_try_ = held_->outlive_expiry ? now + kStalePause + spread : now + kNothingPause;
  } else if (held_->expires) {
    const bool urgent = *held_->expires - now <= renew_urgently_;
    const Milliseconds pause = urgent ? Milliseconds(kUrgentPause) : Milliseconds(kCalmPause);
    next_try_ =
        now + std::min(pause, std::max<Milliseconds>(renew_urgently_ / 4, Milliseconds(50)));
  }
}

Result<Credentials> CredentialCache::get() {
  std::optional<FoundCredentials> fresh;
  Result<Credentials> answer = fail(ErrorKind::broken, "no look at credentials was made");
  {
    const std::lock_guard lock(mutex_);
    Instant now = now_();
    if (wants_new(now)) {
      refused_ = false;
      Result<FoundCredentials> found = find_();
      now = now_();  // the look may have taken longer than the pause after it
      if (!found) {
        failure_ = std::move(found).error();
        plan_retry(now);
      } else if (ended(*found, now) && !found->outlive_expiry) {
        failure_ =
            Error{ErrorKind::unauthorised,
                  "the credentials of " + found->source + " have expired; renew them", "", ""};
        plan_retry(now);
      } else {
        const bool is_new = !held_ || held_->credentials != found->credentials;
        take(std::move(*found), now);
        if (held_->expires && *held_->expires - now <= renew_before_) plan_retry(now);
        if (is_new) fresh = held_;
      }
    }
    const bool usable = held_ && (!ended(*held_, now) || held_->outlive_expiry);
    if (usable)
      answer = held_->credentials;
    else if (failure_)
      answer = fail(*failure_);
  }
  if (fresh && on_new) on_new(*fresh);
  return answer;
}

void CredentialCache::refused(const Credentials& credentials) {
  const std::lock_guard lock(mutex_);
  const Instant now = now_();
  if (!held_ || held_->credentials != credentials) return;
  if (refused_at_ != Instant{} && now - refused_at_ < kRefusedPause) return;
  refused_ = true;
  refused_at_ = now;
}

std::string CredentialCache::source() const {
  const std::lock_guard lock(mutex_);
  return held_ ? held_->source : std::string{};
}

}  // namespace warmroot::aws
