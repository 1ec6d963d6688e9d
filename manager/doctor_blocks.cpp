// Whether a pool's nodes will be told which blocks their volumes' snapshot holds. The one call of
// EBS direct that we make has no dry run; it changes nothing and costs a fraction of a cent.
#include "manager/core/pool_source.hpp"
#include "manager/doctor.hpp"

namespace warmroot::manager {
namespace {

constexpr const char* kCheck = "block list";
constexpr const char* kRight = "ebs:ListSnapshotBlocks";
constexpr const char* kWithout = "warm.block_list = false";
constexpr const char* kOtherwise =
    "; it is not needed, the warmer then asks the file system and leaves what was freed cold";

/// "User: ... is not authorized to perform: ebs:ListSnapshotBlocks ..." is IAM's word; EBS itself
/// says no to snapshots of others, whatever IAM allows.
bool lacks_right(const Error& error) {
  return error.kind == ErrorKind::unauthorised && says_denied(error.context);
}

}  // namespace

void check_block_list(const core::PoolSpec& pool, const DoctorFacts& facts,
                      const core::Observed& observed, std::vector<Finding>& findings) {
  if (!facts.list_blocks) return;
  const std::string snapshot = core::find_source(pool, observed).snapshot_id;
  if (snapshot.empty()) return;  // check_pool says why
  const auto listed = facts.list_blocks(pool, snapshot);
  if (!listed) return;
  if (*listed) {
    findings.push_back(
        Finding::ok(kCheck, pool.name,
                    std::string(kRight) + " is allowed, and EBS lists the blocks of " + snapshot));
    return;
  }
  const Error& error = listed->error();
  if (lacks_right(error))
    findings.push_back(
        Finding::wrong(kCheck, pool.name, std::string(kRight) + " is denied",
                       who_denies(error.context) + ", or write " + kWithout + kOtherwise));
  else
    findings.push_back(Finding::unknown(
        kCheck, pool.name, "EBS does not list the blocks of " + snapshot + ": " + error.message(),
        (error.kind == ErrorKind::unauthorised
             ? "see that the snapshot is this account's and the credentials hold, or write " +
                   std::string(kWithout)
             : remedy_of(error)) +
            kOtherwise));
}

}  // namespace warmroot::manager
