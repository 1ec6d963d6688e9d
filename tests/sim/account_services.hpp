// Service Quotas and KMS of the simulated region, as far as the manager asks them: GetServiceQuota
// and DescribeKey, JSON 1.1, answers and errors as their API references have them. Quotas of spot
// vCPUs are those that launches meet (RegionKnobs::spot_vcpu_quota). Their HTTP door is
// server.cpp's.
#pragma once

#include <string>

#include "tests/sim/region.hpp"

namespace warmroot::sim {

struct AccountReply {
  int status = 200;
  std::string body;  ///< JSON
  std::string code;  ///< "NoSuchResourceException"; empty on success
};

class AccountServices {
 public:
  /// `region` must outlive it.
  explicit AccountServices(const Region& region) : region_(region) {}

  /// The service that a request is for, by its X-Amz-Target header: its name in signatures; empty:
  /// neither.
  static std::string service_of(const std::string& target);
  /// One request. Never fails: every trouble is an answer.
  AccountReply answer(const std::string& target, const std::string& body) const;
  static AccountReply error(const std::string& code, const std::string& message, int status = 400);

 private:
  AccountReply quota(const std::string& service, const std::string& code) const;
  AccountReply key(const std::string& name) const;

  const Region& region_;
};

}  // namespace warmroot::sim
