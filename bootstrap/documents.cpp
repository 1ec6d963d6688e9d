#include "bootstrap/documents.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/warm/warm_progress_json.hpp"

namespace warmroot::bootstrap {
namespace {

using Json = nlohmann::json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// Messages quote programs and the volume's files: bytes that are no UTF-8 must not throw.
std::string dump(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Names, messages and notes quote what the volume holds, and end on the operator's terminal.
Json without_controls_inside(Json document) {
  if (document.is_string()) return without_controls(document.get<std::string>());
  if (document.is_structured())
    for (auto& member : document) member = without_controls_inside(std::move(member));
  return document;
}

Json steps_of(const Status& status) {
  Json steps = Json::array();
  for (const auto& step : status.steps)
    steps.push_back({{"name", step.name},
                     {"start_ms", step.start_ms},
                     {"ms", step.ms},
                     {"outcome", to_string(step.outcome)},
                     {"detail", step.detail}});
  return steps;
}

Json ebs_json(const std::optional<EbsStatistics>& ebs) {
  if (!ebs) return {};
  return {{"read_operations", ebs->read_operations},
          {"write_operations", ebs->write_operations},
          {"read_bytes", ebs->read_bytes},
          {"write_bytes", ebs->write_bytes},
          {"read_us", ebs->read_us},
          {"write_us", ebs->write_us},
          {"volume_iops_exceeded_us", ebs->volume_iops_exceeded_us},
          {"volume_throughput_exceeded_us", ebs->volume_throughput_exceeded_us},
          {"instance_iops_exceeded_us", ebs->instance_iops_exceeded_us},
          {"instance_throughput_exceeded_us", ebs->instance_throughput_exceeded_us},
          {"queue_length", ebs->queue_length}};
}

Json status_json(const Status& status) {
  Json document = {{"version", WARMROOT_VERSION},
                   {"instance_id", status.instance_id},
                   {"deployment", status.deployment},
                   {"pool", status.pool},
                   {"node", or_null(status.node)},
                   {"volume_id", or_null(status.volume_id)},
                   {"device", status.device},
                   {"filesystem", status.filesystem},
                   {"root", status.root},
                   {"stage", to_string(status.stage)},
                   {"message", status.message},
                   {"rebalance", or_null(status.rebalance)},
                   {"volume_os", status.volume_os},
                   {"base_os", status.base_os},
                   {"dirty_bound", status.dirty_bound},
                   {"entry", status.entry},
                   {"remarks", status.remarks},
                   {"hot_list", status.hot_list},
                   {"steps", steps_of(status)},
                   {"disk_visible_to_mounted_ms", or_null(status.disk_visible_to_mounted_ms)},
                   {"mounted_to_ready_ms", or_null(status.mounted_to_ready_ms)},
                   {"warm", warm::to_json(status.warm)},
                   {"ebs", ebs_json(status.ebs)}};
  return without_controls_inside(std::move(document));
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::string> optional_text(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

double number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

/// null where there is none, whatever `object` is. No copy: a copy recurses as deep as its
/// document.
const Json& member_of(const Json& object, const char* key) {
  static const Json kNone;
  const auto found = object.find(key);
  return found != object.end() ? *found : kNone;
}

/// Empty when it is no list.
const Json& list_of(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const Json& list = member_of(object, key);
  return list.is_array() ? list : kNone;
}

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

std::string latency_text(const Json& warm, const char* key, const char* label) {
  const Json& summary = member_of(warm, key);
  if (number_at(summary, "count") == 0) return {};
  return formatted("  %-13s %.0f reads, p50 %.2f ms, p90 %.2f ms, p99 %.2f ms\n", label,
                   number_at(summary, "count"), number_at(summary, "p50_us") / 1000,
                   number_at(summary, "p90_us") / 1000, number_at(summary, "p99_us") / 1000);
}

std::string needed_text(const Json& warm) {
  const std::string source = text_at(warm, "needed_source");
  const char* words = source == "snapshot" ? "the snapshot's block list"
                      : source == "fsmap"  ? "what the file system does not call free"
                      : source == "whole"  ? "the whole partition"
                                           : nullptr;
  return words == nullptr ? std::string() : formatted("  %-13s %s\n", "needed set", words);
}

/// Nothing while it cannot be told.
std::string eta_text(const Json& warm) {
  if (text_at(warm, "state") != "running" || !warm.contains("eta_ms") ||
      !warm["eta_ms"].is_number())
    return {};
  return formatted(", %.1f s to go", number_at(warm, "eta_ms") / 1000);
}

std::string hot_text(const Json& warm) {
  const double blocks = number_at(warm, "hot_blocks");
  if (blocks == 0) return {};
  std::string text =
      formatted("  %-13s %.0f of %.0f blocks", "hot list", number_at(warm, "hot_present"), blocks);
  if (const double ms = number_at(warm, "hot_ms"); ms > 0)
    text += formatted(", all after %.1f s", ms / 1000);
  return text + "\n";
}

std::string warm_text(const Json& warm) {
  std::string text = formatted("warming: %s, %.1f %% of %.0f needed blocks of 512 KiB present%s\n",
                               text_at(warm, "state").c_str(), number_at(warm, "warmth") * 100,
                               number_at(warm, "needed_blocks"), eta_text(warm).c_str());
  text +=
      formatted("  %-13s %.0f blocks, %.1f MiB in %.1f s (%s, depth %.0f, %.0f errors)\n", "read",
                number_at(warm, "blocks_read"), number_at(warm, "bytes_read") / (1024.0 * 1024.0),
                number_at(warm, "elapsed_ms") / 1000, text_at(warm, "engine").c_str(),
                number_at(warm, "depth"), number_at(warm, "errors"));
  return text + needed_text(warm) + hot_text(warm) +
         latency_text(warm, "first_touch", "first touch") +
         latency_text(warm, "warm_reads", "warm reads");
}

/// Where EBS holds the volume back, so that nobody takes its limits for cold blocks.
std::string ebs_text(const Json& ebs) {
  if (!ebs.is_object()) return {};
  const auto seconds = [&](const char* key) { return number_at(ebs, key) / 1e6; };
  return formatted(
      "EBS:     %.0f reads, %.1f MiB; %.1f s at the volume's IOPS, %.1f s at its throughput, "
      "%.1f s at the instance's IOPS, %.1f s at its throughput\n",
      number_at(ebs, "read_operations"), number_at(ebs, "read_bytes") / (1024.0 * 1024.0),
      seconds("volume_iops_exceeded_us"), seconds("volume_throughput_exceeded_us"),
      seconds("instance_iops_exceeded_us"), seconds("instance_throughput_exceeded_us"));
}

std::string step_text(const Json& step) {
  return formatted("  %8.0f %7.0f ms  %-7s %-24s ", number_at(step, "start_ms"),
                   number_at(step, "ms"), text_at(step, "outcome").c_str(),
                   text_at(step, "name").c_str()) +
         text_at(step, "detail");
}

}  // namespace

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::failed:
      return "failed";
    case Outcome::skipped:
      return "skipped";
  }
  return "failed";
}

std::string status_document(const Status& status) {
  return dump(status_json(status)) + "\n";
}

Result<std::string> status_text(std::string_view document) {
  const Json status = Json::parse(document, nullptr, false);
  if (!status.is_object())
    return fail(ErrorKind::broken, "the status file is not a status document");
  std::string text = "stage:   " + text_at(status, "stage") + "\n";
  if (const auto message = text_at(status, "message"); !message.empty())
    text += "message: " + message + "\n";
  const auto or_dash = [&](const char* key) {
    const auto value = text_at(status, key);
    return value.empty() ? std::string("-") : value;
  };
  text += "node:    " + or_dash("node") + " of pool " + or_dash("pool") + " on " +
          or_dash("instance_id") + "\n";
  text += "volume:  " + or_dash("volume_id") + " " + or_dash("device") + " " +
          or_dash("filesystem") + "\n";
  text += "root:    " + or_dash("root") + "\n";
  text += "system:  " + or_dash("volume_os") + " on base " + or_dash("base_os") + "\n";
  text += "entry:   " + or_dash("entry") + "\n";
  text += "hot list: " + or_dash("hot_list") + "\n";
  text += "memory:  " + or_dash("dirty_bound") + "\n";
  for (const auto& remark : list_of(status, "remarks"))
    if (remark.is_string()) text += "remark:  " + remark.get<std::string>() + "\n";
  text += "timeline (ms since the start of up):\n";
  for (const auto& step : list_of(status, "steps")) text += step_text(step) + "\n";
  return text + warm_text(member_of(status, "warm")) + ebs_text(member_of(status, "ebs"));
}

WarmLine warm_line(std::string_view document, unsigned columns) {
  constexpr unsigned kWidestBar = 60;
  const Json status = Json::parse(document, nullptr, false);
  const Json warm = status.is_object() ? status.value("warm", Json::object()) : Json::object();
  const std::string state = warm.is_object() ? text_at(warm, "state") : std::string();
  if (state.empty() || state == "waiting") return {};
  const double warmth = std::clamp(number_at(warm, "warmth"), 0.0, 1.0);
  const double needed = number_at(warm, "needed_blocks");
  std::string right =
      needed == 0 ? formatted("%.0f blocks read", number_at(warm, "blocks_read"))
                  : formatted("%5.1f %%  %.0f of %.0f blocks%s", warmth * 100,
                              number_at(warm, "present_blocks"), needed, eta_text(warm).c_str());
  if (state != "running") right += ", " + state;
  WarmLine line{"warming ", state != "running", state == "failed"};
  // "[", "] " and a column that stays free, so that the terminal does not wrap.
  const auto used = static_cast<unsigned>(line.text.size() + right.size() + 4);
  if (const unsigned width = columns > used ? std::min(columns - used, kWidestBar) : 0;
      width >= 8) {
    const auto filled = static_cast<std::size_t>(warmth * width);
    line.text += "[" + std::string(filled, '#') + std::string(width - filled, '-') + "] ";
  }
  line.text += right;
  return line;
}

StatusFields status_fields(std::string_view document) {
  const Json status = Json::parse(document, nullptr, false);
  if (!status.is_object()) return {};
  StatusFields fields{text_at(status, "stage"),       text_at(status, "message"),
                      text_at(status, "device"),      text_at(status, "pool"),
                      text_at(status, "instance_id"), text_at(status, "filesystem"),
                      text_at(status, "volume_id"),   {}};
  for (const auto& step : list_of(status, "steps")) fields.steps.push_back(step_text(step));
  return fields;
}

SessionWait session_wait(const StatusFields& status) {
  const auto stage = node_stage_from(status.stage);
  if (stage == Stage::ready || stage == Stage::warming || stage == Stage::warm) return {true, {}};
  if (stage && *stage > Stage::warm)
    return {false, status.message.empty() ? status.stage : status.message};
  return {};
}

std::string hello_body(const Status& status, const std::optional<std::string>& identity) {
  return dump({{"version", 1},
               {"instance_id", status.instance_id},
               {"deployment", status.deployment},
               {"pool", status.pool},
               {"identity", or_null(identity)}});
}

Result<HelloAnswer> parse_hello_answer(std::string_view text) {
  const Json answer = Json::parse(text, nullptr, false);
  if (!answer.is_object() || text_at(answer, "key").empty())
    return fail(ErrorKind::broken, "the manager's answer to hello holds no key");
  return HelloAnswer{text_at(answer, "key"), optional_text(answer, "node"),
                     optional_text(answer, "volume_id")};
}

namespace {

/// The manager takes 256 KiB. What a volume's owner writes into its files, or hours of attempts to
/// release it, must not make every report longer than that.
constexpr std::size_t kReportedSteps = 40;  ///< at either end
constexpr std::size_t kReportedRemarks = 40;
constexpr std::size_t kReportedText = 500;
constexpr std::size_t kReportedName = 100;

Status for_report(Status status) {
  auto& steps = status.steps;
  if (steps.size() > 2 * kReportedSteps) {
    const auto first = steps.begin() + kReportedSteps;
    TimedStep gap{"", first->start_ms, 0, Outcome::skipped,
                  std::to_string(steps.size() - 2 * kReportedSteps) + " steps are left out"};
    *first = std::move(gap);
    steps.erase(first + 1, steps.end() - kReportedSteps);
  }
  for (TimedStep& step : steps) {
    step.name = shortened(std::move(step.name), kReportedName);
    step.detail = shortened(std::move(step.detail), kReportedText);
  }
  status.remarks.resize(std::min(status.remarks.size(), kReportedRemarks));
  for (std::string& remark : status.remarks) remark = shortened(std::move(remark), kReportedText);
  for (std::string* text : {&status.message, &status.root, &status.entry, &status.hot_list,
                            &status.volume_os, &status.warm.note})
    *text = shortened(std::move(*text), kReportedText);
  return status;
}

}  // namespace

std::string report_body(const Status& status, Stage stage, std::string_view reason,
                        std::string_view message) {
  constexpr std::size_t kMostMessage = 1000;  // the manager refuses a report with more than 1024
  // Bytes that are no UTF-8 become three each.
  const Json clean = Json::parse(dump(without_controls(std::string(message))));
  return dump({{"version", 1},
               {"instance_id", status.instance_id},
               {"volume_id", or_null(status.volume_id)},
               {"stage", to_string(stage)},
               {"reason", reason},
               {"message", shortened(clean.get<std::string>(), kMostMessage)},
               {"status", status_json(for_report(status))}});
}

Wishes parse_wishes(std::string_view text) {
  const Json answer = Json::parse(text, nullptr, false);
  if (!answer.is_object()) return {};
  const auto wishes = answer.find("wishes");
  if (wishes == answer.end() || !wishes->is_object()) return {};
  const auto drain = wishes->find("drain");
  return {drain != wishes->end() && drain->is_boolean() && drain->get<bool>(),
          optional_text(*wishes, "volume_id"), optional_text(*wishes, "no_volume"),
          optional_text(*wishes, "snapshot_id")};
}

std::string refusal_reason(std::string_view answer) {
  constexpr std::size_t kMostReason = 300;
  const Json refusal = Json::parse(answer, nullptr, false);
  if (!refusal.is_object()) return {};
  return shortened(without_controls(text_at(refusal, "error")), kMostReason);
}

Wishes wishes_beside_refusal(std::string_view answer, const std::string& otherwise) {
  Wishes wishes = parse_wishes(answer);
  if (wishes.volume_id || wishes.no_volume) return wishes;
  const std::string reason = refusal_reason(answer);
  wishes.no_volume = reason.empty() ? otherwise : reason;
  return wishes;
}

std::optional<std::string> parse_rebalance(std::string_view text) {
  const Json hint = Json::parse(text, nullptr, false);
  if (!hint.is_object() || text_at(hint, "noticeTime").empty()) return std::nullopt;
  return text_at(hint, "noticeTime");
}

std::optional<InstanceAction> parse_instance_action(std::string_view text) {
  const Json notice = Json::parse(text, nullptr, false);
  if (!notice.is_object() || text_at(notice, "action").empty()) return std::nullopt;
  return InstanceAction{text_at(notice, "action"), text_at(notice, "time")};
}

}  // namespace warmroot::bootstrap
