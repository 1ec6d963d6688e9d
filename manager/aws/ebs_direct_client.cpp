// See the header.
#include "manager/aws/ebs_direct_client.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "manager/aws/ec2_client.hpp"

namespace warmroot::aws {
namespace {

/// Ten thousand blocks take the service some hundred milliseconds.
constexpr Milliseconds kEbsTimeout{20'000};
/// A request to give up is noticed this soon between two attempts.
constexpr Milliseconds kSlice{100};
/// Between two attempts, doubled up to kBackoffCap. The service allows an account 50 listings a
/// second.
constexpr Milliseconds kFirstPause{100};
/// A page holds at least a hundred blocks, or none; so many in a row without any are no listing.
constexpr int kMostEmptyPages = 1'000;

tl::unexpected<Error> broken(const std::string& what) {
  return fail(ErrorKind::broken, "ListSnapshotBlocks: " + what);
}

}  // namespace

EbsDirectClient::EbsDirectClient(ServiceAddress address, const Connection& connection,
                                 const std::atomic<bool>* give_up)
    : sleep_(connection.surroundings->sleep),
      give_up_(give_up),
      http_(std::make_unique<SignedHttp>(
          std::move(address), std::string(names_of(Service::ebs).signing), connection, give_up)) {}

Result<EbsDirectClient> EbsDirectClient::of_connection(const Connection& connection,
                                                       const std::atomic<bool>* give_up) {
  TRY_ASSIGN(ServiceAddress address,
             resolve_service(Service::ebs, connection.settings.choices, connection.settings.region,
                             *connection.surroundings));
  return EbsDirectClient(std::move(address), connection, give_up);
}

void EbsDirectClient::pause(int failures) {
  Milliseconds left = std::min(kFirstPause * (1 << (failures - 1)), kBackoffCap);
  for (; left > Milliseconds{0} && !given_up() && sleep_; left -= kSlice)
    sleep_(std::min(left, kSlice));
}

Result<SnapshotBlocksPage> EbsDirectClient::page(const ListSnapshotBlocks& call) {
  const SigningRequest request = encode(call);
  for (int attempt = 1;; ++attempt) {
    if (given_up()) return fail(ErrorKind::retry_later, "ListSnapshotBlocks: given up");
    const auto reply = http_->send(request, kEbsTimeout, ebs_code_of);
    auto page =
        reply ? decode_snapshot_blocks(*reply) : Result<SnapshotBlocksPage>(fail(reply.error()));
    if (page) return page;
    Error error = page.error();
    // A listing changes nothing, so that its outcome is never in doubt.
    if (error.kind == ErrorKind::unknown_outcome) error.kind = ErrorKind::retry_later;
    if (error.kind != ErrorKind::retry_later || attempt == kMaxAttempts)
      return fail(std::move(error).within(call.snapshot_id));
    pause(attempt);
  }
}

Ok EbsDirectClient::list_snapshot_blocks(const std::string& snapshot_id,
                                         const std::function<Ok(const SnapshotBlocksPage&)>& take) {
  ListSnapshotBlocks call;
  call.snapshot_id = snapshot_id;
  std::optional<std::uint64_t> volume_bytes;
  for (int empty_pages = 0; empty_pages < kMostEmptyPages;) {
    auto got = page(call);
    if (!got && says_page_token_expired(got.error()) && !call.page_token.empty()) {
      call.page_token.clear();  // first_block says how far the list has come
      got = page(call);
    }
    TRY_ASSIGN(const SnapshotBlocksPage blocks, std::move(got));
    if (volume_bytes.value_or(blocks.volume_bytes) != blocks.volume_bytes)
      return broken("the pages name different sizes of the volume");
    volume_bytes = blocks.volume_bytes;
    if (!blocks.blocks.empty() && blocks.blocks.front() < call.first_block)
      return broken("a page begins before the end of the one before it");
    TRY(take(blocks));
    if (blocks.next_token.empty()) return {};
    empty_pages = blocks.blocks.empty() ? empty_pages + 1 : 0;
    if (!blocks.blocks.empty()) call.first_block = std::uint64_t{blocks.blocks.back()} + 1;
    call.page_token = blocks.next_token;
  }
  return broken("page after page is empty, and there is always another");
}

Ok EbsDirectClient::probe(const std::string& snapshot_id) {
  ListSnapshotBlocks call;
  call.snapshot_id = snapshot_id;
  call.max_results = kFewestSnapshotBlocks;
  TRY(page(call));
  return {};
}

}  // namespace warmroot::aws
