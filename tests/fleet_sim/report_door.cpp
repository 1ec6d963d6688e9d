// See the header.
#include "tests/fleet_sim/report_door.hpp"

#include <utility>

#include "bootstrap/documents.hpp"
#include "bootstrap/report_sign.hpp"

namespace warmroot::fleet {

namespace {

constexpr int kTaken = 200;
constexpr int kGone = 410;

/// What the manager reads of the bootstrap's status.
std::string status_of(const core::NodeReport& report) {
  return std::string(R"({"rebalance":)") +
         (report.rebalance ? R"("2026-01-02T03:04:05Z")" : "null") +
         R"(,"warm":{"needed_blocks":)" + (report.warmth ? "1000" : "0") + R"(,"warmth":)" +
         std::to_string(report.warmth.value_or(0)) + "}}";
}

}  // namespace

/// As bootstrap/documents.cpp writes it.
Letter letter_of(Guest& guest, const core::NodeReport& report) {
  Letter letter;
  letter.instance_id = report.instance_id;
  letter.sequence = ++guest.sequence;
  letter.body = R"({"version":1,"instance_id":")" + report.instance_id + R"(","volume_id":)" +
                (report.volume_id.empty() ? "null" : "\"" + report.volume_id + "\"") +
                R"(,"stage":")" + std::string(to_string(report.stage)) + R"(","reason":")" +
                report.reason + R"(","message":")" + report.message + R"(","status":)" +
                status_of(report) + "}";
  letter.signature = bootstrap::sign_report(guest.key, letter.sequence, letter.body);
  return letter;
}

ReportDoor::ReportDoor(const manager::Ledger& ledger, DoorSetup setup)
    : setup_(std::move(setup)),
      keys_(ledger, setup_.clock),
      desk_(setup_.rules, board, keys_,
            {[this] { return manager::Admission::Time(setup_.steady().time_since_epoch()); },
             setup_.clock}) {}

ReportDoor::Reply ReportDoor::hello(const std::string& body, const std::string& peer) {
  may_wake = true;
  const auto said = desk_.hello(body, peer);
  if (said.status != kTaken) return {said.status};
  const auto answer = bootstrap::parse_hello_answer(said.body);
  CHECK(answer.has_value());
  return {kTaken, answer->key_hex, false, answer->volume_id.value_or("")};
}

ReportDoor::Reply ReportDoor::report(const Letter& letter) {
  const manager::SignedBody body{letter.instance_id, std::to_string(letter.sequence),
                                 letter.signature, letter.body};
  if (const auto fault = desk_.find_fault(body); fault && !setup_.believes_anybody)
    return {fault->status};
  auto& last = said_[letter.instance_id];
  may_wake = may_wake || !board.known(letter.instance_id) || last != letter.body;
  last = letter.body;
  const auto said = desk_.report(body);
  const auto [known, is_new] = wishes_.try_emplace(said.body);
  auto& wishes = known->second;
  if (is_new) {
    const auto parsed = said.status == kGone ? bootstrap::wishes_beside_refusal(said.body, "gone")
                                             : bootstrap::parse_wishes(said.body);
    wishes = {parsed.drain, parsed.volume_id.value_or(""), parsed.no_volume.has_value()};
  }
  return {said.status, {}, wishes.drain, wishes.volume_id, wishes.no_volume};
}

}  // namespace warmroot::fleet
