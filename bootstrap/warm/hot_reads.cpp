#include "bootstrap/warm/hot_reads.hpp"

#include <algorithm>
#include <cstdint>

#include "bootstrap/warm/warm_plan.hpp"

namespace warmroot::warm {
namespace {

constexpr std::uint32_t kBeforeFiles = 0;  // of the pump's ranks

}  // namespace

bool HotReads::are_there() const {
  return blocks_.difference(parts_.presence.present()).count() == 0;
}

void HotReads::look() {
  if (!are_there()) return;
  const auto since = SteadyClock::now() - start_;
  parts_.progress.hot_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

Result<ReadPump::End> HotReads::read(std::vector<Block> list, std::span<const Block> under_way) {
  for (const Block block : list)
    if (block < blocks_.size()) blocks_.insert(block);
  parts_.progress.hot_blocks = blocks_.count();
  if (parts_.progress.hot_blocks == 0) {
    started_ = true;
    return ReadPump::End::finished;
  }
  // Two reads of one block bring no more than one, and the pipe has room for few: what is under way
  // is asked for when the others have been, and is there by then.
  BlockSet later(blocks_.size());
  for (const Block block : under_way)
    if (block < later.size()) later.insert(block);
  std::ranges::stable_partition(
      list, [&](Block block) { return block >= later.size() || !later.contains(block); });
  const BlockSet none(blocks_.size());
  parts_.control.hurry(true);
  const auto end = parts_.reader.read(plan_reads({&none, &parts_.presence.present(), list, {}, {}}),
                                      [] { return true; });
  parts_.control.hurry(false);
  started_ = true;
  look();
  return end;
}

void HotReads::take_late() {
  if (!started_ || !late_) return;
  auto late = late_();
  if (!late) return;
  late_ = {};
  if (late->empty()) return;
  std::erase_if(*late, [this](Block block) { return block >= blocks_.size(); });
  for (const Block block : *late) blocks_.insert(block);
  WarmProgress& progress = parts_.progress;
  progress.hot_blocks = blocks_.count();
  if (!are_there())
    progress.hot_ms.reset();
  else if (progress.hot_blocks > 0 && !progress.hot_ms)
    look();
  parts_.wishes.expect(*late);
  late_left_ = !progress.hot_ms;
  parts_.pump.prefer(*late, kBeforeFiles);
}

bool HotReads::is_being_read() {
  late_left_ = late_left_ && !parts_.progress.hot_ms && parts_.pump.has_preferred();
  return late_left_ || (parts_.progress.hot_blocks > 0 && !started_);
}

void HotReads::came(Block block) {
  if (started_ && !parts_.progress.hot_ms && blocks_.contains(block)) look();
}

void HotReads::went() {
  if (parts_.progress.hot_ms && !are_there()) parts_.progress.hot_ms.reset();
}

void HotReads::count() {
  WarmProgress& progress = parts_.progress;
  progress.hot_present = blocks_.intersection(parts_.presence.present()).count();
  if (started_ && progress.hot_blocks > 0 && progress.hot_present == progress.hot_blocks &&
      !progress.hot_ms)
    look();
}

}  // namespace warmroot::warm
