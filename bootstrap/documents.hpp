// JSON in and out of the bootstrap: the status document, the manager's protocol, the spot notice.
// Pure. documents.cpp, held_volume.cpp and ticket.cpp are the only files of the bootstrap proper
// that include the JSON library.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "bootstrap/status.hpp"

namespace warmroot::bootstrap {

/// The status document, one line.
std::string status_document(const Status& status);
/// The same for people: what is where, the timeline, the warming. Errors: broken when `document` is
/// none.
Result<std::string> status_text(std::string_view document);
/// How far warming is, in a line for a terminal of so many columns; for who waits for its end.
struct WarmLine {
  std::string text = "warming: not begun";
  bool ended = false;
  bool failed = false;
};
WarmLine warm_line(std::string_view document, unsigned columns);
/// What `down` and `wait` need of a status document; all empty when it is none.
struct StatusFields {
  std::string stage, message, device, pool, instance_id, filesystem, volume_id;
  std::vector<std::string> steps;  ///< one readable line each
};
StatusFields status_fields(std::string_view document);
/// For who waits for sessions in the volume.
struct SessionWait {
  bool there = false;               ///< new sessions land in it
  std::optional<std::string> vain;  ///< why they will not as things are
};
SessionWait session_wait(const StatusFields& status);

/// Body of POST /v1/hello. `identity` is Imds::identity_signature's.
std::string hello_body(const Status& status, const std::optional<std::string>& identity);
struct HelloAnswer {
  std::string key_hex;
  std::optional<std::string> node, volume_id;
};
/// Errors: broken when the answer is not what the protocol says.
Result<HelloAnswer> parse_hello_answer(std::string_view text);

/// Body of POST /v1/report.
std::string report_body(const Status& status, Stage stage, std::string_view reason,
                        std::string_view message);
struct Wishes {
  bool drain = false;
  std::optional<std::string> volume_id;      ///< the volume that the manager attached to us
  std::optional<std::string> no_volume;      ///< why we get none for now, for people
  std::optional<std::string> snapshot_id{};  ///< what that volume was made from
};
/// Lenient: what cannot be read is no wish.
Wishes parse_wishes(std::string_view text);

/// Why the manager does not take a report, by the body of its answer, for people; empty where that
/// does not say.
std::string refusal_reason(std::string_view answer);

/// The wishes in the answer to a report that the manager does not take, because the volume is
/// another instance's by now. Where it names no other, there is none, for the reason that it gives,
/// or `otherwise`: older managers wish nothing there.
Wishes wishes_beside_refusal(std::string_view answer, const std::string& otherwise);

/// The body of spot/instance-action.
struct InstanceAction {
  std::string action;  ///< "terminate", "stop", "hibernate"
  std::string time;    ///< EC2's text, not looked at: "2026-01-02T03:06:05Z", the earliest moment
};
/// nullopt when it is no notice.
std::optional<InstanceAction> parse_instance_action(std::string_view text);

/// The body of events/recommendations/rebalance: since when, EC2's text, not looked at. nullopt
/// when it is no such hint.
std::optional<std::string> parse_rebalance(std::string_view text);

}  // namespace warmroot::bootstrap
