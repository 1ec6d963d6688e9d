#include "manager/cli_progress.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace warmroot::manager {
namespace {

constexpr std::chrono::milliseconds kLongestSilence{1900};
constexpr std::chrono::milliseconds kTick{100};
constexpr int kMostNodesNamed = 5;

bool is_settled(const core::NodeRow& row) {
  if (row.wanted)
    return row.condition == core::NodeCondition::active ||
           row.condition == core::NodeCondition::checking;
  return row.condition == core::NodeCondition::asleep;
}

}  // namespace

Progress::Progress() : thread_([this](const std::stop_token& stop) { speak_in_silence(stop); }) {}

Progress::~Progress() = default;

double Progress::elapsed_s() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

void Progress::print(const std::string& text) {
  fmt::print(stderr, "[{:6.1f}s] {}\n", elapsed_s(), text);
  spoken_ = Clock::now();
}

void Progress::say(const std::string& text) {
  const std::lock_guard lock(mutex_);
  print(text);
}

void Progress::waiting_for(const std::string& text) {
  const std::lock_guard lock(mutex_);
  waiting_for_ = text;
}

void Progress::speak_in_silence(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(kTick);
    const std::lock_guard lock(mutex_);
    if (!waiting_for_.empty() && Clock::now() - spoken_ >= kLongestSilence)
      print("waiting for " + waiting_for_);
  }
}

std::string unsettled_nodes(const core::Plan& plan) {
  std::string text;
  int count = 0;
  for (const core::NodeRow& row : plan.nodes) {
    if (is_settled(row)) continue;
    if (++count > kMostNodesNamed) continue;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", row.node,
                        core::describe(row.condition).word);
  }
  if (count > kMostNodesNamed) text += fmt::format(" and {} more", count - kMostNodesNamed);
  return text.empty() ? "EC2 to finish what was asked for" : text;
}

}  // namespace warmroot::manager
