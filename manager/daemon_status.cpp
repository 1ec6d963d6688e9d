#include "manager/daemon_status.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "manager/core/offers.hpp"
#include "manager/reports_codec.hpp"

namespace warmroot::manager {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson null_if_empty(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

/// The bootstrap's own status; null when it sent none.
OrderedJson status_of(const core::NodeReport& report) {
  if (report.status_json.empty()) return nullptr;
  OrderedJson status = OrderedJson::parse(report.status_json, nullptr, false);
  return status.is_discarded() ? OrderedJson(nullptr) : std::move(status);
}

OrderedJson stage_times(const ReportBoard::Entry& entry) {
  OrderedJson times = OrderedJson::object();
  for (const auto& [stage, at] : entry.first_received)
    times[std::string(to_string(stage))] = to_iso8601(at);
  return times;
}

OrderedJson node_json(const core::NodeRow& row, const TickView& view, const Reports& reports) {
  const auto state = view.instance_states.find(row.instance_id);
  const auto found = row.instance_id.empty() ? reports.end() : reports.find(row.instance_id);
  const bool reported = found != reports.end();
  const OrderedJson status = reported ? status_of(found->second.latest) : OrderedJson(nullptr);
  OrderedJson warmth;  // null while nobody has said
  if (reported && found->second.latest.warmth) warmth = *found->second.latest.warmth;
  const core::Words words = core::describe(row.condition);
  return {
      {"node", row.node},
      {"pool", row.pool},
      {"wanted", row.wanted},
      {"state", words.word},
      {"meaning", words.meaning},
      {"volume_id", null_if_empty(row.volume_id)},
      {"zone", null_if_empty(row.zone)},
      {"lease", row.lease ? core::to_string(*row.lease) : "none"},
      {"instance_id", null_if_empty(row.instance_id)},
      {"instance_state",
       state == view.instance_states.end() ? OrderedJson(nullptr) : OrderedJson(state->second)},
      {"successor_id", null_if_empty(row.successor_id)},
      {"stage",
       reported ? OrderedJson(to_string(found->second.latest.stage)) : OrderedJson(nullptr)},
      {"message", reported ? null_if_empty(found->second.latest.message) : OrderedJson(nullptr)},
      {"report_received",
       reported ? OrderedJson(to_iso8601(found->second.latest.received)) : OrderedJson(nullptr)},
      {"stage_received", reported ? stage_times(found->second) : OrderedJson::object()},
      {"warmth", warmth},
      {"status", status},
  };
}

/// A label's value: quotes, backslashes and newlines escaped.
std::string label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    if (c == '\n')
      escaped += "\\n";
    else
      escaped += c;
  }
  return escaped;
}

void add_metric(std::string& text, std::string_view name, std::string_view type,
                std::string_view help) {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

template <typename Row>
void add_states(std::string& text, std::string_view name, const std::vector<Row>& rows) {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const Row& row : rows) ++counts[{row.pool, std::string(core::describe(row.condition).word)}];
  for (const auto& [key, count] : counts)
    text += fmt::format("{}{{pool=\"{}\",state=\"{}\"}} {}\n", name, label(key.first),
                        label(key.second), count);
}

void add_events(std::string& text, const TickView& view) {
  if (!view.listens) return;
  add_metric(
      text, "warmroot_events_total", "counter",
      "Events of EC2 read from the queue, by kind, and how many of all came twice (doubled), "
      "ten minutes late, or were not understood (unparsable).");
  for (const auto& [what, count] : view.events)
    if (what != "failed_calls")
      text += fmt::format("warmroot_events_total{{kind=\"{}\"}} {}\n", label(what), count);
  const auto failed = view.events.find("failed_calls");
  add_metric(text, "warmroot_queue_calls_failed_total", "counter", "Calls of SQS that failed.");
  text += fmt::format("warmroot_queue_calls_failed_total {}\n",
                      failed == view.events.end() ? 0 : failed->second);
}

void add_refusals(std::string& text, const TickView& view) {
  add_metric(text, "warmroot_identity_verified", "gauge",
             "1 when instances have to show a signed identity document at hello.");
  text += fmt::format("warmroot_identity_verified {}\n", view.verifies_identity ? 1 : 0);
  add_metric(text, "warmroot_requests_refused_total", "counter",
             "Hellos and signed reports of instances that were refused, by reason.");
  for (const auto& [what, count] : view.refusals) {
    const std::size_t space = what.find(' ');
    text += fmt::format("warmroot_requests_refused_total{{request=\"{}\",reason=\"{}\"}} {}\n",
                        label(what.substr(0, space)), label(what.substr(space + 1)), count);
  }
  add_metric(text, "warmroot_keys_replaced_total", "counter",
             "Instances that got a new key after a silence, which voids the old one.");
  text += fmt::format("warmroot_keys_replaced_total {}\n", view.keys_replaced);
}

}  // namespace

std::string status_json(const TickView& view, const Reports& reports) {
  OrderedJson plan = OrderedJson::array();
  for (const core::Action& action : view.plan.actions)
    plan.push_back({{"action", core::action_name(action.mutation)},
                    {"resource", core::resource_of(action.mutation)},
                    {"reason", action.reason}});
  OrderedJson notes = OrderedJson::array();
  for (const core::Note& note : view.plan.notes)
    notes.push_back({{"pool", note.pool},
                     {"node", note.node},
                     {"text", note.text},
                     {"blocking", note.blocking}});
  OrderedJson nodes = OrderedJson::array();
  for (const core::NodeRow& row : view.plan.nodes) nodes.push_back(node_json(row, view, reports));
  OrderedJson history = OrderedJson::array();
  for (const StatusEvent& event : view.history)
    history.push_back({{"time", to_iso8601(event.at)}, {"node", event.node}, {"text", event.text}});
  OrderedJson costs = OrderedJson::object();
  for (const auto& [pool, cost] : view.plan.cost_hour) costs[pool] = core::usd_text(cost);
  const OrderedJson document = {
      {"version", WARMROOT_VERSION},
      {"deployment", view.deployment},
      {"region", view.region},
      {"updated", to_iso8601(view.updated)},
      {"stable", view.plan.stable},
      {"identity", view.verifies_identity ? "signed document" : "instance id only"},
      {"usd_hour", costs},
      {"plan", plan},
      {"notes", notes},
      {"nodes", nodes},
      {"history", history},
  };
  return document.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string metrics_text(const TickView& view, const Reports& reports) {
  std::string text;
  add_metric(text, "warmroot_stable", "gauge",
             "1 when every wish is met and nothing is in transition.");
  text += fmt::format("warmroot_stable {}\n", view.plan.stable ? 1 : 0);
  add_metric(text, "warmroot_last_look_timestamp_seconds", "gauge", "When EC2 was last looked at.");
  text += fmt::format("warmroot_last_look_timestamp_seconds {:.3f}\n",
                      static_cast<double>(view.updated.time_since_epoch().count()) / 1000.0);
  add_metric(text, "warmroot_notes", "gauge",
             "What the operator should know, by whether it blocks a wish.");
  int blocking = 0;
  for (const core::Note& note : view.plan.notes) blocking += note.blocking ? 1 : 0;
  text += fmt::format(
      "warmroot_notes{{blocking=\"true\"}} {}\nwarmroot_notes{{blocking=\"false\"}} {}\n", blocking,
      view.plan.notes.size() - static_cast<std::size_t>(blocking));
  add_metric(text, "warmroot_nodes", "gauge", "Nodes by state.");
  add_states(text, "warmroot_nodes", view.plan.nodes);
  add_metric(text, "warmroot_volumes", "gauge", "Volumes by state.");
  add_states(text, "warmroot_volumes", view.plan.volumes);
  add_metric(text, "warmroot_node_warmth_ratio", "gauge",
             "Share of the needed blocks that are present, as reported.");
  for (const core::NodeRow& row : view.plan.nodes) {
    const auto found = reports.find(row.instance_id);
    if (row.instance_id.empty() || found == reports.end()) continue;
    if (const auto warmth = found->second.latest.warmth)
      text += fmt::format("warmroot_node_warmth_ratio{{pool=\"{}\",node=\"{}\"}} {}\n",
                          label(row.pool), label(row.node), *warmth);
  }
  add_metric(text, "warmroot_pool_usd_per_hour", "gauge",
             "What a pool's instances cost an hour, where the prices are known.");
  for (const auto& [pool, cost] : view.plan.cost_hour)
    text += fmt::format("warmroot_pool_usd_per_hour{{pool=\"{}\"}} {}\n", label(pool),
                        core::usd_text(cost));
  add_metric(text, "warmroot_calls_total", "counter",
             "Calls that change something at EC2, by outcome.");
  for (const auto& [key, count] : view.calls) {
    const std::size_t space = key.find(' ');
    text += fmt::format("warmroot_calls_total{{action=\"{}\",outcome=\"{}\"}} {}\n",
                        label(key.substr(0, space)), label(key.substr(space + 1)), count);
  }
  add_events(text, view);
  add_refusals(text, view);
  return text;
}

}  // namespace warmroot::manager
