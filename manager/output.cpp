#include "manager/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "manager/core/offers.hpp"

namespace warmroot::manager {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kGap = 2;

std::string words_or_dash(const std::vector<std::string>& words) {
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, " "));
}

std::string shown(const Cell& cell) {
  if (const auto* words = std::get_if<std::vector<std::string>>(&cell))
    return words_or_dash(*words);
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *number);
  if (const auto* flag = std::get_if<bool>(&cell)) return *flag ? "yes" : "no";
  return "-";
}

OrderedJson to_json(const Cell& cell) {
  if (const auto* words = std::get_if<std::vector<std::string>>(&cell)) return *words;
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&cell)) return *number;
  if (const auto* flag = std::get_if<bool>(&cell)) return *flag;
  return nullptr;
}

/// Columns on a terminal: UTF-8's continuation bytes take none.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_numeric(const Table& table, std::size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return std::holds_alternative<std::int64_t>(row[column]);
  });
}

std::int64_t count_nodes(const core::Plan& plan, const std::string& pool, auto predicate) {
  return std::count_if(plan.nodes.begin(), plan.nodes.end(), [&](const core::NodeRow& row) {
    return row.pool == pool && predicate(row);
  });
}

/// What the pool's instances cost an hour; empty when a price is not known.
std::string cost_text(const core::Plan& plan, const std::string& pool) {
  const auto cost = plan.cost_hour.find(pool);
  return cost == plan.cost_hour.end() ? "" : core::usd_text(cost->second);
}

/// The nodes that the call is for; an instance's end concerns those it serves now.
std::vector<std::string> nodes_of(const core::Action& action, const core::Plan& plan) {
  if (!action.nodes.empty()) return action.nodes;
  std::vector<std::string> nodes;
  const std::vector<std::string> ids = core::resource_ids(action.mutation);
  for (const core::NodeRow& row : plan.nodes_now)
    if (!row.instance_id.empty() && std::find(ids.begin(), ids.end(), row.instance_id) != ids.end())
      nodes.push_back(row.node);
  return nodes;
}

}  // namespace

Cell text_or_absent(std::string text) {
  if (text.empty()) return std::monostate{};
  return text;
}

std::string as_text(const Table& table) {
  if (table.rows.empty()) return "(none)\n";
  std::vector<std::size_t> shown_columns;
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    if (table.columns[column].json_only) continue;
    std::size_t widest = width(table.columns[column].title);
    for (const auto& row : table.rows) widest = std::max(widest, width(shown(row[column])));
    shown_columns.push_back(column);
    widths.push_back(widest);
  }
  std::string text;
  const auto add_line = [&](auto&& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < shown_columns.size(); ++i) {
      const std::string cell = cell_of(shown_columns[i]);
      const std::string padding(widths[i] - width(cell), ' ');
      line += is_numeric(table, shown_columns[i]) ? padding + cell : cell + padding;
      line += std::string(kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](std::size_t column) { return table.columns[column].title; });
  for (const auto& row : table.rows)
    add_line([&](std::size_t column) { return shown(row[column]); });
  return text;
}

std::string as_json(const Table& table) {
  OrderedJson list = OrderedJson::array();
  for (const auto& row : table.rows) {
    OrderedJson object = OrderedJson::object();
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      object[table.columns[i].key] = to_json(row[i]);
    list.push_back(std::move(object));
  }
  return list.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string formatted(const Table& table, OutputForm form) {
  return form == OutputForm::json ? as_json(table) : as_text(table);
}

namespace {

std::string pool_state(const core::Plan& plan, const core::PoolSpec& pool, std::int64_t wanted,
                       std::int64_t served) {
  const bool blocked = std::any_of(
      plan.notes.begin(), plan.notes.end(),
      [&](const core::Note& note) { return note.pool == pool.name && core::needs_operator(note); });
  if (served < wanted && blocked) return "blocked";
  // Nodes that the group runs no instance for are not on their way.
  if (!pool.auto_scaling_group.empty())
    wanted -= count_nodes(plan, pool.name, [](const core::NodeRow& row) {
      return row.wanted && row.condition == core::NodeCondition::no_instance;
    });
  return served < wanted ? "starting" : wanted == 0 ? "asleep" : "served";
}

}  // namespace

Table pool_table(const core::Desired& desired, const core::Plan& plan,
                 const std::set<std::string>& paused) {
  Table table{{{"POOL", "pool"},
               {"STATE", "state"},
               {"SOURCE", "source"},
               {"ZONES", "zones"},
               {"NODES", "nodes"},
               {"WANTED", "running_wanted"},
               {"SERVED", "nodes_served"},
               {"VOLUMES", "volumes"},
               {"USD/H", "usd_hour"}},
              {}};
  for (const core::PoolSpec& pool : desired.pools) {
    const bool is_paused = paused.contains(pool.name);
    const auto wanted =
        count_nodes(plan, pool.name, [](const core::NodeRow& row) { return row.wanted; });
    const auto served = count_nodes(plan, pool.name, [](const core::NodeRow& row) {
      return row.condition == core::NodeCondition::active ||
             row.condition == core::NodeCondition::checking;
    });
    const auto volumes =
        std::count_if(plan.volumes.begin(), plan.volumes.end(),
                      [&](const core::VolumeRow& row) { return row.pool == pool.name; });
    const std::string state = is_paused ? "paused" : pool_state(plan, pool, wanted, served);
    table.rows.push_back({pool.name, state, pool.ami.empty() ? pool.snapshot : pool.ami, pool.zones,
                          std::int64_t{pool.nodes}, wanted, served, std::int64_t{volumes},
                          text_or_absent(cost_text(plan, pool.name))});
  }
  return table;
}

Table node_table(const core::Plan& plan) {
  Table table{{{"NODE", "node"},
               {"POOL", "pool", true},
               {"WANTED", "wanted"},
               {"STATE", "state"},
               {"ZONE", "zone"},
               {"VOLUME", "volume_id"},
               {"INSTANCE", "instance_id"},
               {"LEASE", "lease", true},
               {"SUCCESSOR", "successor_id", true},
               {"MEANING", "meaning"}},
              {}};
  for (const core::NodeRow& row : plan.nodes) {
    const core::Words words = core::describe(row.condition);
    table.rows.push_back({row.node, row.pool, row.wanted, std::string(words.word),
                          text_or_absent(row.zone), text_or_absent(row.volume_id),
                          text_or_absent(row.instance_id),
                          std::string(row.lease ? core::to_string(*row.lease) : "none"),
                          text_or_absent(row.successor_id), std::string(words.meaning)});
  }
  return table;
}

Table volume_table(const core::Plan& plan) {
  Table table{{{"VOLUME", "volume_id"},
               {"POOL", "pool"},
               {"NODE", "node"},
               {"ROLE", "role"},
               {"ZONE", "zone"},
               {"SIZE GiB", "size_gib"},
               {"WARM %", "warmth_percent"},
               {"STATE", "state"},
               {"INSTANCE", "instance_id"},
               {"DEVICE", "device"},
               {"MEANING", "meaning"}},
              {}};
  for (const core::VolumeRow& row : plan.volumes) {
    const core::Words words = core::describe(row.condition);
    table.rows.push_back({row.volume_id, text_or_absent(row.pool), text_or_absent(row.node),
                          std::string(core::to_string(row.role)), text_or_absent(row.zone),
                          std::int64_t{row.size_gib},
                          row.warmth ? Cell(std::int64_t{*row.warmth}) : Cell(std::monostate{}),
                          std::string(words.word), text_or_absent(row.instance_id),
                          text_or_absent(row.device), std::string(words.meaning)});
  }
  return table;
}

Table action_table(const core::Plan& plan) {
  Table table{
      {{"CALL", "action"}, {"RESOURCE", "resource"}, {"FOR", "nodes"}, {"REASON", "reason"}}, {}};
  for (const core::Action& action : plan.actions)
    table.rows.push_back({std::string(core::action_name(action.mutation)),
                          core::resource_of(action.mutation), nodes_of(action, plan),
                          action.reason});
  return table;
}

std::string note_line(const core::Note& note) {
  const std::string& subject = note.node.empty() ? note.pool : note.node;
  return subject.empty() ? note.text : fmt::format("{}: {}", subject, note.text);
}

}  // namespace warmroot::manager
