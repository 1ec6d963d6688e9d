// The words in which a bootstrap tells its manager how far it is: one list for both programs.
#pragma once

#include <optional>
#include <string_view>

namespace warmroot {

/// In the order in which a node passes through them; failed can follow any, hello rebooting, and
/// mounted those behind it: sessions land on the base again until a login in the volume has worked.
enum class NodeStage {
  hello,
  disk_seen,
  checked,
  mounted,
  ready,
  warming,
  warm,
  rebooting,  ///< its machine reboots, and keeps the volume, which is being or has been unmounted
  draining,
  released,
  failed
};

/// Why a volume is released that was never served: its file system is damaged beyond what the node
/// may repair. A report's `reason`.
inline constexpr std::string_view kUncleanBeyondRepair = "unclean_beyond_repair";
/// Why a volume is released that nobody has unmounted: its disk was taken away under it, and what
/// was not written yet is lost, as at a power cut. A report's `reason`.
inline constexpr std::string_view kDiskGone = "disk-gone";
/// Why a volume is released that its node has not mounted since it began, if it was there at all:
/// what this very machine may have left of it before a reset, nobody knows. A report's `reason`.
inline constexpr std::string_view kNeverMounted = "never-mounted";

/// Whether a release for this reason says that the volume is free, and not that it was left clean.
constexpr bool ends_unclean(std::string_view reason) {
  return reason == kDiskGone || reason == kNeverMounted;
}

/// The stage's word in reports, status documents and tables: "disk_seen".
std::string_view to_string(NodeStage stage);
std::optional<NodeStage> node_stage_from(std::string_view word);

}  // namespace warmroot
