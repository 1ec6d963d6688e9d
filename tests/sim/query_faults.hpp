// What can go wrong with a call to the simulated region, and which calls it goes wrong with. Kept
// by the Query front; injected by tests, by simulated fleets and through `/_control/fault`.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/region_model.hpp"

namespace warmroot::sim {

/// What goes wrong with a call, for tests of the caller.
enum class FaultKind {
  unreachable,  ///< no connection: nothing happens and the caller knows it
  lost_before,  ///< the connection breaks before anything happened
  lost_after,   ///< it happened, and the answer is lost
  throttled,    ///< 503 RequestLimitExceeded, or the fault's own code of a throttle
  internal,     ///< 500 InternalError, nothing happened
  unavailable,  ///< 503 Unavailable
  html,         ///< 200 with somebody else's page
  truncated,    ///< it happened, and half of the answer arrives
  // EC2 promises nothing about a 5xx: it may have happened all the same (assumption).
  throttled_after,
  internal_after,
  unavailable_after,
  html_after,         ///< the same for somebody else's page
  too_many_requests,  ///< 429 without a code, as of a proxy; nothing happened
  late,               ///< the answer is lost now, and it happens `delay` later
  slow_before,        ///< `delay` passes before it happens
  slow_after,         ///< it happens, and `delay` passes before the answer
  empty_page,     ///< a listing: no items, and a token that goes on (legal by the API's reference)
  token_expired,  ///< InvalidNextToken; hits only calls that continue a listing
  auth_failure,   ///< 401 AuthFailure
  expired_token,  ///< 400 ExpiredToken, as from temporary credentials
  request_expired,  ///< 400 RequestExpired: clock skew, or EC2's word for expired credentials
  unauthorized,     ///< 403 UnauthorizedOperation
  wrong_account,    ///< answered as if the credentials were another account's
  refused,          ///< with the fault's own status, code and message
};

std::string_view to_string(FaultKind kind);
std::optional<FaultKind> fault_kind(std::string_view name);

struct Fault {
  static constexpr int kAlways = std::numeric_limits<int>::max();

  std::string action;  ///< "*": any; "Describe*": all that start so
  FaultKind kind;
  int count = 1;                   ///< so many calls are hit
  int after = 0;                   ///< so many calls of the action pass first
  double share = 1;                ///< of the matching calls, drawn from the front's seed
  std::optional<Instant> until{};  ///< the end of a spell
  Milliseconds delay{0};           ///< of late and slow answers
  /// Only calls whose form holds this text: an id, or "NextToken=" for a page in the middle.
  std::string containing{};
  int status = 400;  ///< this and what follows: of `refused`
  std::string code{};
  std::string message{};
};

/// The faults that wait for their calls.
class FaultList {
 public:
  void inject(Fault fault) { faults_.push_back(std::move(fault)); }
  void clear() { faults_.clear(); }
  bool empty() const { return faults_.empty(); }
  /// True when a fault waits for such a call, now or after others.
  bool may_hit(const std::string& action, std::string_view form, Instant now) const;
  void seed(std::uint64_t seed) { random_.seed(seed); }

  /// The fault that hits this call, if any; counts it.
  std::optional<Fault> next(const std::string& action, std::string_view form, Instant now);
  /// Calls hit so far, by the name of the fault.
  const std::map<std::string, int>& hits() const { return hits_; }

 private:
  std::vector<Fault> faults_;
  std::map<std::string, int> hits_;
  std::mt19937_64 random_{1};
};

/// What EC2 answers under a fault that refuses the call.
ApiError fault_error(const Fault& fault);

/// What EC2 answers to a mutating call under the credentials of another account: what the call
/// names does not exist there. `values` are the form's.
ApiError foreign_refusal(const std::map<std::string, std::string>& values);

}  // namespace warmroot::sim
