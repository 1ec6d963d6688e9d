// The Query front of the simulated region: a form body in, EC2's XML or EC2's error out. Both doors
// stand on it: the HTTP server, and RegionTransport in one process. Keeps the throttle, the faults
// to inject and a record of all calls.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/query_faults.hpp"
#include "tests/sim/region.hpp"
#include "tests/sim/xml_writer.hpp"

namespace warmroot::sim {

class Form;
struct ActionEntry;

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
  bool late = false;       ///< executed long after its caller had given up
  std::string fault;       ///< what was injected; empty for none
};

/// One of the servers that answer: what it knows is as old as this. EC2 is eventually consistent
/// (developer guide, "eventual consistency"), and two calls may meet two servers.
struct Replica {
  Milliseconds age{0};         ///< its listings show the world of so long ago
  Milliseconds visibility{0};  ///< what is younger is not found, neither shown nor acted upon
};

class QueryFront {
 public:
  explicit QueryFront(Region& region) : region_(region) {}

  /// Answers one form body. Never fails: every trouble is an answer of EC2's.
  QueryReply answer(std::string_view form);
  /// EC2's error document, also for refusals made before the form is read.
  QueryReply error(const ApiError& error);

  void inject(Fault fault) { faults_.inject(std::move(fault)); }
  /// What waits to go wrong, to be seeded, cleared and counted.
  FaultList& faults() { return faults_; }
  const FaultList& faults() const { return faults_; }
  /// Each call meets one of these, drawn from `seed`; none (the default): all know everything.
  void set_replicas(std::vector<Replica> replicas, std::uint64_t seed = 1);
  /// How slow answers let time pass; without it the region's own time is moved.
  std::function<void(Milliseconds)> pass_time;
  /// Share of EC2's real buckets: 1 is EC2, 0 (the default) none.
  void set_throttle_scale(double scale) { throttle_scale_ = scale; }
  /// Share of every bucket that somebody else in the account uses up: 0.3 leaves 70 %.
  void set_neighbour(double share) { neighbour_ = share; }

  /// How answers look from now on. With a shuffle every answer has an order of its own.
  void set_shape(const XmlShape& shape) { shape_ = shape; }

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
  /// Takes `count` tokens of a bucket, or none.
  bool take_tokens(const std::string& bucket, double size, double refill_per_s, double count);
  /// Whether EC2's throttle lets the call pass.
  bool throttle_lets(const ActionEntry& action, const Form& form);
  Answer<void> check_permission(const ActionEntry& action, const Form& form) const;
  QueryReply hit(const Fault& fault, std::string_view form, CallRecord& record);
  QueryReply delayed(const Fault& fault, std::string_view form, CallRecord& record);
  Answer<void> run(const ActionEntry& action, const Form& form, XmlWriter& xml);
  Answer<void> find_named(const Form& form, Milliseconds visibility) const;
  void wait(Milliseconds time);
  void keep(CallRecord record);
  std::string new_request_id();

  Region& region_;
  FaultList faults_;
  std::vector<Replica> replicas_;
  std::mt19937_64 random_{1};
  double throttle_scale_ = 0;
  double neighbour_ = 0;
  XmlShape shape_;
  std::map<std::string, Bucket> buckets_;
  std::vector<CallRecord> calls_;
  std::uint64_t last_request_ = 0;
};

}  // namespace warmroot::sim
