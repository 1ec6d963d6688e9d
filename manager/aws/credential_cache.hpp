// Keeps the credentials that were found and renews them before they end. Shared by everything that
// signs: EC2, SQS, STS.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "manager/aws/credentials.hpp"

namespace warmroot::aws {

/// Renewal is tried this long before the end, and the old ones stay in use when it fails. Source:
/// botocore. Credentials with a short life (STS gives 15 minutes at the least) are renewed after
/// two thirds of it, else they would be renewed for every call.
inline constexpr std::chrono::minutes kRenewBefore{15};
/// From here on a failed renewal is repeated every few seconds.
inline constexpr std::chrono::minutes kRenewUrgently{10};

/// Any thread.
class CredentialCache {
 public:
  using Finder = std::function<Result<FoundCredentials>()>;

  /// `find` looks anew each time; `random` gives numbers in [0, 1).
  CredentialCache(Finder find, std::function<Instant()> now, std::function<double()> random);

  /// Credentials to sign with now. Looks for new ones first when the end is near. Errors: as
  /// Finder's where there are none that could still be used.
  Result<Credentials> get();

  /// A service says that these have expired: the next get() looks anew, once in kRefusedPause.
  void refused(const Credentials& credentials);

  /// Where the present ones are from; empty before the first get().
  std::string source() const;

  /// Called with each set that is new, under no lock.
  std::function<void(const FoundCredentials&)> on_new;

 private:
  bool wants_new(Instant now) const;
  void take(FoundCredentials found, Instant now);
  void plan_retry(Instant now);

  Finder find_;
  std::function<Instant()> now_;
  std::function<double()> random_;
  mutable std::mutex mutex_;
  std::optional<FoundCredentials> held_;
  std::optional<Error> failure_;
  Milliseconds renew_before_{0};
  Milliseconds renew_urgently_{0};
  Instant next_try_{};
  bool refused_ = false;
  Instant refused_at_{};
};

}  // namespace warmroot::aws
