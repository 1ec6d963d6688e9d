#include "manager/cli_progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "manager/output.hpp"

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

/// EC2, an instance or the next look will change it.
bool in_transition(const core::NodeRow& row) {
  using enum core::NodeCondition;
  switch (row.condition) {
    case creating:
    case launching:
    case waiting:
    case attaching:
    case handover:
    case leaving:
      return true;
    default:
      return false;
  }
}

/// What only the operator can change; empty while anything else may still move.
std::string operators_part(const core::Plan& plan) {
  if (!plan.actions.empty() || std::any_of(plan.nodes.begin(), plan.nodes.end(), in_transition))
    return {};
  std::string text;
  int count = 0;
  for (const core::Note& note : plan.notes) {
    if (!core::needs_operator(note)) continue;
    if (++count == 1) text = note_line(note);
  }
  if (count > 1) text += fmt::format(" (and {} more)", count - 1);
  return text;
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
  if (const std::string text = operators_part(plan); !text.empty()) return "the operator: " + text;
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
