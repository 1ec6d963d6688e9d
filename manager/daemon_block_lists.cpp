#include "manager/daemon_block_lists.hpp"

#include "manager/aws/ebs_direct_client.hpp"
#include "manager/core/pool_source.hpp"
#include "manager/daemon_log.hpp"

namespace warmroot::manager {
namespace {

Result<warm::BlockList> fetch(const aws::Connection& connection, const std::string& snapshot_id,
                              const std::atomic<bool>& give_up) {
  TRY_ASSIGN(auto client, aws::EbsDirectClient::of_connection(connection, &give_up));
  warm::BlockList list;
  list.snapshot_id = snapshot_id;
  TRY(client.list_snapshot_blocks(snapshot_id, [&](const aws::SnapshotBlocksPage& page) -> Ok {
    if (list.volume_bytes == 0) {
      list.volume_bytes = page.volume_bytes;
      list.blocks = warm::BlockSet(warm::grid_blocks(page.volume_bytes));
    }
    for (const std::uint32_t block : page.blocks) list.blocks.insert(block);
    return {};
  }));
  return list;
}

}  // namespace

BlockListHooks ebs_block_lists(const aws::Connection& connection) {
  static_assert(aws::kSnapshotBlockBytes == warm::kGridBytes);
  BlockListHooks hooks;
  hooks.fetch = [&connection](const std::string& snapshot_id, const std::atomic<bool>& give_up) {
    return fetch(connection, snapshot_id, give_up);
  };
  hooks.kept = [](const warm::BlockList& list) {
    log_event(LogLevel::info, "block list kept",
              {{"snapshot", list.snapshot_id},
               {"blocks", std::to_string(list.blocks.count())},
               {"of", std::to_string(list.blocks.size())}});
  };
  hooks.failed = [](const std::string& snapshot_id, const Error& error) {
    LogFields fields = {{"snapshot", snapshot_id}, {"error", error.message()}};
    if (error.kind == ErrorKind::unauthorised)
      fields.emplace_back("remedy",
                          "allow ebs:ListSnapshotBlocks (templates/iam-policy.json), or write "
                          "warm.block_list = false; until then the warmer asks the file system");
    log_event(LogLevel::warning, "no block list", fields);
  };
  return hooks;
}

std::set<std::string> snapshots_to_list(const Config& config, const core::Observed& observed) {
  std::set<std::string> snapshots;
  for (const core::PoolSpec& pool : config.desired.pools) {
    if (!pool.warm.enabled || config.without_block_lists.contains(pool.name)) continue;
    const auto source = core::find_source(pool, observed);
    if (!source.snapshot_id.empty()) snapshots.insert(source.snapshot_id);
  }
  return snapshots;
}

std::set<std::string> lineages_in_use(const Config& config, const core::Observed& observed) {
  std::set<std::string> lineages;
  for (const core::PoolSpec& pool : config.desired.pools)
    if (const auto source = core::find_source(pool, observed); !source.snapshot_id.empty())
      lineages.insert(source.snapshot_id);
  for (const auto& [id, volume] : observed.volumes)
    if (const auto tag = volume.tags.find(core::kTagLineage); tag != volume.tags.end())
      lineages.insert(tag->second);
  return lineages;
}

}  // namespace warmroot::manager
