// The Query front of the simulated region: a form body in, EC2's XML or EC2's error out. Both doors
// stand on it: the HTTP server, and RegionTransport in one process. Keeps the throttle, the faults
// to inject and a record of all calls.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/region.hpp"

namespace warmroot::sim {

/// What goes wrong with a call, for tests of the caller.
enum class FaultKind {
  unreachable,  ///< no connection: nothing happens and the caller knows it
  lost_before,  ///< the connection breaks before anything happened
  lost_after,   ///< it happened, and the answer is lost
  throttled,    ///< 503 RequestLimitExceeded
  internal,     ///< 500 InternalError, nothing happened
  unavailable,  ///< 503 Unavailable
  html,         ///< 200 with somebody else's page
  truncated,    ///< it happened, and half of the answer arrives
};

struct Fault {
  std::string action;  ///< "*": any
  FaultKind kind;
  int count = 1;  ///< so many calls are hit
  int after = 0;  ///< so many calls of the action pass first
};

struct QueryReply {
  int status = 200;
  std::string content_type = "text/xml;charset=UTF-8";
  std::string body;
  std::string request_id;
  std::string code;              ///< EC2's error code; empty on success
  bool lost = false;             ///< no answer reaches the caller
  bool never_connected = false;  ///< and the caller knows that nothing was received
};

/// A call as the region saw it.
struct CallRecord {
  Instant time;
  std::string action;
  std::string body;
  int status = 0;
  std::string code;
  bool effective = false;  ///< a mutation that was executed
};

class QueryFront {
 public:
  explicit QueryFront(Region& region) : region_(region) {}

  /// Answers one form body. Never fails: every trouble is an answer of EC2's.
  QueryReply answer(std::string_view form);
  /// EC2's error document, also for refusals made before the form is read.
  QueryReply error(const ApiError& error);

  void inject(Fault fault) { faults_.push_back(std::move(fault)); }
  /// Share of EC2's real buckets: 1 is EC2, 0 (the default) none.
  void set_throttle_scale(double scale) { throttle_scale_ = scale; }

  /// The last calls, oldest first; at most kMaxCalls.
  const std::vector<CallRecord>& calls() const { return calls_; }
  void forget_calls() { calls_.clear(); }
  static constexpr std::size_t kMaxCalls = 100'000;

 private:
  struct Bucket {
    double tokens = 0;
    Instant filled;
  };
  QueryReply execute(std::string_view form, CallRecord& record);
  bool take_token(const std::string& action, double size, double refill_per_s);
  const Fault* next_fault(const std::string& action);
  std::string new_request_id();

  Region& region_;
  std::vector<Fault> faults_;
  Fault hit_{};
  double throttle_scale_ = 0;
  std::map<std::string, Bucket> buckets_;
  std::vector<CallRecord> calls_;
  std::uint64_t last_request_ = 0;
};

}  // namespace warmroot::sim
