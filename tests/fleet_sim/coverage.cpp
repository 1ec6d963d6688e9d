// See the header.
#include "tests/fleet_sim/coverage.hpp"

#include <string_view>

#include "manager/aws/ec2_codec.hpp"
#include "manager/core/draft.hpp"

namespace warmroot::fleet {

namespace {

/// The calls that the rules and orders may plan.
constexpr const char* kActions[] = {
    "AttachVolume",   "CopyVolumes",       "CreateFleet",  "CreateLaunchTemplate",
    "CreateSnapshot", "CreateTags",        "CreateVolume", "DeleteLaunchTemplate",
    "DeleteTags",     "DeleteVolume",      "DetachVolume", "ModifyInstanceAttribute",
    "RunInstances",   "TerminateInstances"};
constexpr const char* kOutcomes[] = {"accepted", "refused", "unknown"};

std::string_view name_of(aws::Reaction reaction) {
  constexpr std::string_view kNames[] = {"throttled", "transient",  "done",        "look",
                                         "wait",      "absent",     "device",      "change",
                                         "account",   "permission", "credentials", "request",
                                         "new_token", "restart",    "unknown"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(aws::Reaction::unknown) + 1);
  return kNames[static_cast<std::size_t>(reaction)];
}

}  // namespace

void Coverage::add(const manager::TickReport& report) {
  for (const auto& call : report.calls) {
    const std::string outcome(core::to_string(call.outcome.state));
    add("action", call.action + " " + outcome);
    if (call.replayed) add("replay", call.action + " " + outcome);
    if (call.action == "TerminateInstances" &&
        call.reason.find(core::kNeverCameBack) != std::string::npos)
      add("way", kEndedAfterReboot);
    if (call.outcome.code.empty()) continue;
    add("code", call.action + " " + call.outcome.code);
    add("error", std::string(name_of(aws::reaction_for(call.outcome.code, call.action))));
  }
  for (const auto& note : report.plan.notes) add("note", std::string(core::to_string(note.kind)));
  if (!report.blind) return;
  add("blind", std::string(to_string(report.blind->kind)));
  if (!report.blind->code.empty())
    add("error", std::string(name_of(aws::reaction_for(report.blind->code, "DescribeVolumes"))));
}

void Coverage::merge(const Coverage& other) {
  for (const auto& [kind, names] : other.counts_)
    for (const auto& [name, count] : names) counts_[kind][name] += count;
}

bool Coverage::has(const std::string& kind, const std::string& name) const {
  const auto found = counts_.find(kind);
  return found != counts_.end() && found->second.contains(name);
}

std::vector<std::string> Coverage::missing(const std::vector<std::string>& faults) const {
  std::vector<std::string> never;
  const auto want = [&](const std::string& kind, const std::string& name) {
    if (!has(kind, name)) never.push_back(kind + " " + name);
  };
  for (const char* action : kActions)
    for (const char* outcome : kOutcomes) want("action", std::string(action) + " " + outcome);
  for (int kind = 0; kind <= static_cast<int>(core::kLastNoteKind); ++kind)
    want("note", std::string(core::to_string(static_cast<core::NoteKind>(kind))));
  for (int reaction = 0; reaction <= static_cast<int>(aws::Reaction::unknown); ++reaction)
    want("error", std::string(name_of(static_cast<aws::Reaction>(reaction))));
  want("way", kVolumesWithLaunch);
  for (const auto& fault : faults) want("fault", fault);
  if (const auto armed = counts_.find("armed"); armed != counts_.end())
    for (const auto& [kind, count] : armed->second) want("hit", kind);
  return never;
}

}  // namespace warmroot::fleet
