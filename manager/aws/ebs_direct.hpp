// EBS direct as far as the manager needs it: which blocks of a snapshot hold data. REST JSON,
// version 2019-11-02, pure. Source: reference ec2.md 8.1, botocore's ebs model.
// ebs_direct_client.hpp sends it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/result.hpp"
#include "manager/aws/sigv4.hpp"

namespace warmroot::aws {

/// The service's own bounds of a page, and its one block size.
inline constexpr int kFewestSnapshotBlocks = 100;
inline constexpr int kMostSnapshotBlocks = 10'000;
inline constexpr std::uint64_t kSnapshotBlockBytes = 512 * 1024;

struct ListSnapshotBlocks {
  std::string snapshot_id;
  std::string page_token;         ///< of the page before; empty: none
  std::uint64_t first_block = 0;  ///< the list starts here; ignored with a token
  int max_results = kMostSnapshotBlocks;
};

/// One page. Tokens of blocks are for reading them, which we do not; so neither they nor when they
/// expire is kept.
struct SnapshotBlocksPage {
  std::uint64_t volume_bytes = 0;     ///< of the volume that the snapshot is of
  std::vector<std::uint32_t> blocks;  ///< ascending, inside the volume; may be empty on any page
  std::string next_token;             ///< empty: this is the last page
};

/// To be signed for the service "ebs", without Host. Requires an id of letters, digits and dashes.
SigningRequest encode(const ListSnapshotBlocks& call);

/// The error's type and reason, "ValidationException.INVALID_PAGE_TOKEN"; empty on success.
std::string ebs_code_of(const HttpReply& reply);

/// A token that does not hold any more: they end after an hour.
bool says_page_token_expired(const Error& error);

/// Errors: unauthorised (also for snapshots of others that are public), gone (no such snapshot),
/// refused, retry_later (throttled, 5xx), broken when it is no such page: no JSON, too large,
/// blocks out of order, twice or beyond the volume, another block size.
Result<SnapshotBlocksPage> decode_snapshot_blocks(const HttpReply& reply);

}  // namespace warmroot::aws
