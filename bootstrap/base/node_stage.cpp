#include "bootstrap/base/node_stage.hpp"

#include <algorithm>
#include <array>

namespace warmroot {
namespace {

/// In the order of NodeStage.
constexpr std::array<std::string_view, 11> kWords = {
    "hello", "disk_seen", "checked",  "mounted",  "ready", "warming",
    "warm",  "rebooting", "draining", "released", "failed"};
static_assert(kWords.size() == static_cast<std::size_t>(NodeStage::failed) + 1);

}  // namespace

std::string_view to_string(NodeStage stage) {
  return kWords.at(static_cast<std::size_t>(stage));
}

std::optional<NodeStage> node_stage_from(std::string_view word) {
  const auto found = std::ranges::find(kWords, word);
  if (found == kWords.end()) return std::nullopt;
  return static_cast<NodeStage>(found - kWords.begin());
}

}  // namespace warmroot
