// What `warmroot doctor` finds: one line for each thing that has to be right before the first node
// is served, with the remedy where it is not. Asks EC2 with reads and dry runs alone; changes
// nothing. cli_doctor.cpp prints it. doctor_permissions.cpp asks who may do what, doctor_pool.cpp
// looks at a pool, doctor_group.cpp at its Auto Scaling group, doctor_blocks.cpp at its block list,
// doctor_account.cpp at quotas and keys; doctor_remedies.cpp knows what helps against an error.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "manager/aws/account_facts.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"

namespace warmroot::manager {

enum class Verdict {
  ok,
  wrong,
  unknown,  ///< could not be asked; not an answer either way
};
std::string_view to_string(Verdict verdict);

/// One line. Who says that something is not ok has to say what to do: there is no other way to make
/// one.
struct Finding {
  Verdict verdict;
  std::string check;   ///< "permissions", "clock", ...
  std::string pool;    ///< empty: of the whole deployment
  std::string text;    ///< what was found
  std::string remedy;  ///< what a person can do; empty if and only if ok

  static Finding ok(std::string check, std::string pool, std::string text);
  static Finding wrong(std::string check, std::string pool, std::string text, std::string remedy);
  static Finding unknown(std::string check, std::string pool, std::string text, std::string remedy);

  /// "what was found: what to do".
  std::string sentence() const;

 private:
  Finding(Verdict is, std::string of_check, std::string of_pool, std::string found,
          std::string what_to_do);
};

struct DoctorFacts {
  const core::Desired& desired;
  std::string account;  ///< whose credentials these are; empty: not known
  /// The service's clock minus ours; absent: its answers carry no date.
  std::optional<Milliseconds> clock_skew;
  std::function<Result<std::string>(const core::PoolSpec&)> user_data;
  Instant now{};
  /// Tries to list blocks of the pool's snapshot, or says nothing to a pool that does not want it.
  /// Empty: cannot be asked.
  std::function<std::optional<Ok>(const core::PoolSpec&, const std::string& snapshot_id)>
      list_blocks{};
  /// Tries to read the queue of EC2's events. Empty: the spec names none.
  std::function<Ok()> read_queue{};
  /// Reads a quota of a service ("ec2") by its code, as it is applied. Empty: cannot be asked.
  std::function<Result<double>(const std::string& service, const std::string& code)> quota{};
  /// Reads what KMS says of a key. Empty: cannot be asked.
  std::function<Result<aws::KmsKey>(const std::string& key)> key{};
};

/// Everything, pools in the spec's order. Never fails: what cannot be asked is a finding.
std::vector<Finding> examine(aws::Ec2& ec2, const DoctorFacts& facts);

/// No finding is wrong.
bool healthy(const std::vector<Finding>& findings);

// ---- parts, for tests and for each other ----

/// A wording of IAM's: who says no, and what helps.
struct Denier {
  std::string_view words;
  std::string_view remedy;
};
std::span<const Denier> known_deniers();

/// Who says no, and what helps, from the words of an UnauthorizedOperation (EC2 gives no code for
/// it). Words that are not known give the general remedy.
std::string who_denies(std::string_view message);

/// The words are IAM's no, whatever service passes it on.
bool says_denied(std::string_view words);

/// What helps against an error; never empty.
std::string remedy_of(const Error& error);

/// The same for a sentence that quotes one.
std::string remedy_of_quoted(std::string_view sentence);

/// A dry run of every call that the spec needs, each with what it would be used on.
void check_permissions(aws::Ec2& ec2, const DoctorFacts& facts, const core::Observed& observed,
                       std::vector<Finding>& findings);

/// Types by name, and the (type, zone) pairs on offer; absent where EC2 could not be asked.
struct TypeFacts {
  std::optional<std::map<std::string, aws::InstanceType>> types;
  std::optional<std::vector<aws::InstanceTypeOffering>> offerings;
  Error types_error;      ///< why they are absent
  Error offerings_error;  ///< the same
};

/// Source, architectures, types, subnets, attachment slots, tags and user-data of one pool. Pure
/// but for facts.user_data.
void check_pool(const core::PoolSpec& pool, const DoctorFacts& facts,
                const core::Observed& observed, const TypeFacts& types,
                std::vector<Finding>& findings);

/// What the pool's Auto Scaling group has launched, and whether it can be served.
void check_group(aws::Ec2& ec2, const DoctorFacts& facts, const core::PoolSpec& pool,
                 std::vector<Finding>& findings);

/// Whether EBS lists the blocks of the pool's snapshot, which the warmer can do without.
void check_block_list(const core::PoolSpec& pool, const DoctorFacts& facts,
                      const core::Observed& observed, std::vector<Finding>& findings);

/// Whether the quotas of spot vCPUs and of storage have room for the pools.
void check_quotas(const DoctorFacts& facts, const core::Observed& observed, const TypeFacts& types,
                  std::vector<Finding>& findings);

/// Whether the pool's KMS key is there, enabled and one that encrypts.
void check_key(const core::PoolSpec& pool, const DoctorFacts& facts, const core::Observed& observed,
               std::vector<Finding>& findings);

/// Whether the queue of EC2's events can be read, which the manager can do without.
Finding check_queue(const Ok& read);

/// How far the clocks are apart, and whether EC2 minds.
Finding check_clock(std::optional<Milliseconds> skew);

}  // namespace warmroot::manager
