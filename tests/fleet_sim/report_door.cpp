// See the header.
#include "tests/fleet_sim/report_door.hpp"

#include <utility>

#include "bootstrap/report_sign.hpp"
#include "manager/reports_codec.hpp"

namespace warmroot::fleet {

namespace {

constexpr int kTaken = 200;
constexpr int kMalformed = 400;
constexpr int kUnauthorized = 401;
constexpr int kConflict = 409;
constexpr int kGone = 410;
constexpr int kUnavailable = 503;

}  // namespace

/// As bootstrap/documents.cpp writes it, but for the status, which only people read.
Letter letter_of(Guest& guest, const core::NodeReport& report) {
  Letter letter;
  letter.instance_id = report.instance_id;
  letter.sequence = ++guest.sequence;
  letter.body = R"({"version":1,"instance_id":")" + report.instance_id + R"(","volume_id":)" +
                (report.volume_id.empty() ? "null" : "\"" + report.volume_id + "\"") +
                R"(,"stage":")" + std::string(to_string(report.stage)) + R"(","message":")" +
                report.message + "\"}";
  letter.signature = bootstrap::sign_report(guest.key, letter.sequence, letter.body);
  return letter;
}

Result<std::unique_ptr<ReportDoor>> ReportDoor::open(DoorSetup setup) {
  TRY_ASSIGN(auto keys, manager::LedgerKeys::open(setup.ledger_path, setup.clock));
  return std::unique_ptr<ReportDoor>(new ReportDoor(std::move(setup), std::move(keys)));
}

ReportDoor::ReportDoor(DoorSetup setup, std::unique_ptr<manager::LedgerKeys> keys)
    : setup_(std::move(setup)),
      keys_(std::move(keys)),
      admission_(setup_.rules, board, *keys_, steady()) {}

manager::Admission::Time ReportDoor::steady() const {
  return manager::Admission::Time(setup_.steady().time_since_epoch());
}

ReportDoor::Reply ReportDoor::refuse(manager::Refusal reason, int status) {
  board.refusals.add(reason);
  return {status};
}

ReportDoor::Reply ReportDoor::hello(const std::string& body, const std::string& peer) {
  may_wake = true;
  const auto hello = manager::parse_hello(body);
  if (!hello) return refuse(manager::Refusal::hello_malformed, kMalformed);
  const auto admitted = admission_.hello(*hello, peer, steady());
  if (admitted.status != kTaken) return {admitted.status};
  core::NodeReport report;
  report.instance_id = hello->instance_id;
  report.received = setup_.clock();
  board.record(std::move(report));
  return {kTaken, admitted.key.reveal()};
}

int ReportDoor::authentic(const Letter& letter) {
  const auto key = keys_->key_of(letter.instance_id);
  if (!key) return kUnavailable;
  const bool fits =
      *key && manager::equal_in_constant_time(
                  manager::report_signature(**key, letter.sequence, letter.body), letter.signature);
  if (setup_.believes_anybody) return kTaken;
  if (!fits) return refuse(manager::Refusal::report_forged, kUnauthorized).status;
  const auto turn = keys_->advance(letter.instance_id, letter.sequence);
  if (!turn || *turn == manager::Turn::fresh) admission_.heard(letter.instance_id, steady());
  if (!turn) return kUnavailable;
  if (*turn == manager::Turn::fresh) return kTaken;
  return refuse(*turn == manager::Turn::replayed ? manager::Refusal::report_replayed
                                                 : manager::Refusal::report_late,
                kConflict)
      .status;
}

ReportDoor::Reply ReportDoor::report(const Letter& letter) {
  if (const int status = authentic(letter); status != kTaken) return {status};
  auto report = manager::parse_report(letter.body);
  if (!report || report->instance_id != letter.instance_id)
    return refuse(manager::Refusal::report_malformed, kMalformed);
  const bool dead_lease = board.held_by_another(report->volume_id, report->instance_id);
  if (dead_lease && report->stage != NodeStage::released)
    return refuse(manager::Refusal::report_dead_lease, kGone);
  const auto seen = board.known(report->instance_id);
  if (!seen) board.knock(report->instance_id, steady());
  may_wake = may_wake || !seen || said_[letter.instance_id] != letter.body;
  said_[letter.instance_id] = letter.body;
  report->received = setup_.clock();
  if (!keys_->keep_departure(*report)) return {kUnavailable};
  board.record(std::move(*report));
  if (dead_lease) return refuse(manager::Refusal::report_dead_lease, kGone);
  return {kTaken, {}, seen && seen->drain};
}

}  // namespace warmroot::fleet
