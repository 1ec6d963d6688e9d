#include "manager/report_desk.hpp"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "manager/reports_codec.hpp"

namespace warmroot::manager {
namespace {

constexpr int kMalformed = 400;
constexpr int kUnauthorized = 401;
constexpr int kConflict = 409;
constexpr int kGone = 410;
constexpr int kUnavailable = 503;

/// The volume that the instance may take. One that it has and is told that it gets none is on its
/// way to another.
std::string volume_for(const KnownInstance& known) {
  return known.no_volume.empty() ? known.volume_id : std::string();
}

}  // namespace

std::optional<std::uint64_t> parse_sequence(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

ReportDesk::ReportDesk(AdmissionRules rules, ReportBoard& board, KeyStore& keys, Clocks clocks)
    : board_(board),
      keys_(keys),
      clocks_(std::move(clocks)),
      admission_(std::move(rules), board, keys, clocks_.steady()) {}

ReportDesk::Answer ReportDesk::refuse(Refusal reason, int status, const std::string& text) {
  board_.refusals.add(reason);
  return {status, error_answer(text)};
}

ReportDesk::Answer ReportDesk::hello(const std::string& body, const std::string& peer) {
  const auto hello = parse_hello(body);
  if (!hello) return refuse(Refusal::hello_malformed, kMalformed, hello.error().context);
  const auto admitted = admission_.hello(*hello, peer, clocks_.steady());
  if (admitted.status != 200) return {admitted.status, error_answer(admitted.error)};
  core::NodeReport report;
  report.instance_id = hello->instance_id;
  report.received = clocks_.wall();
  board_.record(std::move(report), true);
  return {200, hello_answer(admitted.key, admitted.known.node, volume_for(admitted.known))};
}

std::optional<ReportDesk::Answer> ReportDesk::find_fault(const SignedBody& letter) {
  const auto sequence = parse_sequence(letter.sequence);
  if (!sequence)
    return refuse(Refusal::report_malformed, kMalformed,
                  "X-Warmroot-Sequence is missing or not a number");
  const auto key = keys_.key_of(letter.instance_id);
  if (!key) return Answer{kUnavailable, error_answer(key.error().message())};
  // The same answer for no key and for a wrong one: neither is a stranger's business.
  if (!*key ||
      !equal_in_constant_time(report_signature(**key, *sequence, letter.body), letter.signature))
    return refuse(Refusal::report_forged, kUnauthorized,
                  "the signature does not fit the instance's key");
  const auto turn = keys_.advance(letter.instance_id, *sequence);
  // Also where the number cannot be kept: a full disk of ours is no silence of the instance.
  if (!turn || *turn == Turn::fresh) admission_.heard(letter.instance_id, clocks_.steady());
  if (!turn) return Answer{kUnavailable, error_answer(turn.error().message())};
  if (*turn == Turn::fresh) return std::nullopt;
  return refuse(*turn == Turn::replayed ? Refusal::report_replayed : Refusal::report_late,
                kConflict, fmt::format("sequence {} is not greater than the last one", *sequence));
}

/// The wishes of any answer, for they are about the instance and not about what it reported: to
/// drain, where it is to give back what was attached to it since, and which volume that is. That
/// another has the reported one is no wish to drain: a disk that is gone the bootstrap misses by
/// itself, and what is known here may be a look older than an attach to this very instance. A
/// bootstrap that reads nothing but `error` there takes no disk, as one that is told nothing else.
ReportDesk::Answer ReportDesk::refuse_dead_lease(const std::string& volume_id,
                                                 const KnownInstance& known) {
  board_.refusals.add(Refusal::report_dead_lease);
  return {kGone, report_answer(known.drain, volume_for(known), known.snapshot_id, known.no_volume,
                               fmt::format("volume {} is another instance's by now", volume_id))};
}

ReportDesk::Answer ReportDesk::report(const SignedBody& letter) {
  auto report = parse_report(std::string(letter.body));
  if (!report) return refuse(Refusal::report_malformed, kMalformed, report.error().context);
  if (report->instance_id != letter.instance_id)
    return refuse(Refusal::report_malformed, kMalformed, "instance_id is not that of the header");
  const std::string volume_id = report->volume_id;
  const bool dead_lease = board_.held_by_another(volume_id, report->instance_id);
  const auto seen = board_.known(report->instance_id);
  const KnownInstance known = seen.value_or(KnownInstance{});
  if (dead_lease && report->stage != NodeStage::released)
    return refuse_dead_lease(volume_id, known);
  if (!seen) board_.knock(report->instance_id, clocks_.steady());
  report->received = clocks_.wall();
  // The node says it once and then ends: it has to be known before it is told so. Also where the
  // volume has gone on without it: the instance is free, and nothing on it mounts another.
  if (const auto kept = keys_.keep_departure(*report); !kept)
    return {kUnavailable, error_answer(kept.error().message())};
  board_.record(std::move(*report), false, parse_sequence(letter.sequence).value_or(0));
  if (dead_lease) return refuse_dead_lease(volume_id, known);
  return {200, report_answer(known.drain, volume_for(known), known.snapshot_id, known.no_volume)};
}

}  // namespace warmroot::manager
