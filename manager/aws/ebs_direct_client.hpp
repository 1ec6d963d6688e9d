// Lists a snapshot's blocks page by page over signed HTTP. Each thread that asks has its own
// client.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "manager/aws/ebs_direct.hpp"
#include "manager/aws/signed_http.hpp"

namespace warmroot::aws {

/// One thread.
class EbsDirectClient {
 public:
  /// Shares the connection's credentials, which outlive it. `give_up` ends a listing under way.
  EbsDirectClient(ServiceAddress address, const Connection& connection,
                  const std::atomic<bool>* give_up);

  /// Where the connection's settings say that EBS direct is. Errors: misconfigured.
  static Result<EbsDirectClient> of_connection(const Connection& connection,
                                               const std::atomic<bool>* give_up);

  /// Gives every page in order: blocks ascend over all of them. A page that is throttled or lost is
  /// asked for again, some times; a token that has expired is replaced by the place. Errors:
  /// decode_snapshot_blocks()'s and SignedHttp's; broken when pages contradict each other;
  /// retry_later when told to give up; what `take` returns.
  Ok list_snapshot_blocks(const std::string& snapshot_id,
                          const std::function<Ok(const SnapshotBlocksPage&)>& take);

  /// Whether the blocks may be listed: one page, the smallest. Errors: as list_snapshot_blocks().
  Ok probe(const std::string& snapshot_id);

 private:
  Result<SnapshotBlocksPage> page(const ListSnapshotBlocks& call);
  bool given_up() const { return give_up_ != nullptr && give_up_->load(); }
  void pause(int failures);

  std::function<void(Milliseconds)> sleep_;
  const std::atomic<bool>* give_up_;
  std::unique_ptr<SignedHttp> http_;  // by pointer, so that a client can be returned
};

}  // namespace warmroot::aws
