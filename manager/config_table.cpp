#include "manager/config_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace warmroot::manager {
namespace {

/// A misspelling differs by at most this many letters; more would suggest words that have nothing
/// in common.
constexpr std::size_t kMostLettersWrong = 2;

/// Where a key lives, for keys written under the wrong header (TOML's headers swallow every line
/// that follows).
constexpr std::pair<std::string_view, std::string_view> kHomeOfKey[] = {
    {"deployment", "the top of the file"},
    {"manager_url", "the top of the file"},
    {"region", "the top of the file"},
    {"name", "[[pool]], above [pool.volumes] and [pool.launch]"},
    {"ami", "[[pool]], above [pool.volumes] and [pool.launch]"},
    {"snapshot", "[[pool]], above [pool.volumes] and [pool.launch]"},
    {"zones", "[[pool]], above [pool.volumes] and [pool.launch]"},
    {"nodes", "[[pool]], above [pool.volumes] and [pool.launch]"},
    {"running", "[[pool]], above [pool.volumes] and [pool.launch]"},
    {"type", "[pool.volumes]"},
    {"size_gib", "[pool.volumes]"},
    {"grow", "[pool.volumes]"},
    {"snapshot_unclean", "[pool.volumes]"},
    {"iops", "[pool.volumes]"},
    {"throughput_mib_s", "[pool.volumes]"},
    {"encrypted", "[pool.volumes]"},
    {"kms_key", "[pool.volumes]"},
    {"spares", "[pool.stock]"},
    {"golden", "[pool.stock]"},
    {"ready_within_s", "[pool.stock]"},
    {"copy_usd_gib", "[pool.stock]"},
    {"policy", "[pool.rollout]"},
    {"entry", "[pool.session]"},
    {"host_keys", "[pool.session]"},
    {"rescue_port", "[pool.session]"},
    {"login_wait_s", "[pool.session]"},
    {"grace_s", "[pool.session]"},
    {"hooks_s", "[pool.session]"},
    {"max_unavailable", "[pool.rollout]"},
    {"base_ami", "[pool.launch]"},
    {"instance_types", "[pool.launch]"},
    {"subnets", "[pool.launch]"},
    {"security_groups", "[pool.launch]"},
    {"key_name", "[pool.launch]"},
    {"instance_profile", "[pool.launch]"},
    {"max_price", "[pool.launch]"},
    {"user_data", "[pool.launch]"},
    {"tags", "[pool.volumes] or [pool.launch]"},
};

std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = i;
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min(
          {above + 1, row[j] + 1, diagonal + static_cast<std::size_t>(left[i] != right[j])});
      diagonal = above;
    }
  }
  return row.back();
}

std::string_view word_for(toml::node_type type) {
  switch (type) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a fraction";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

bool is_decimal(std::string_view text) {
  const bool digits_and_point = text.find_first_not_of("0123456789.") == std::string_view::npos &&
                                std::count(text.begin(), text.end(), '.') <= 1;
  return digits_and_point && !text.empty() && text.front() != '.' && text.back() != '.';
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::min(kMostLettersWrong, word.size() / 2) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (!best.empty()) return best;
  // A word cut short or drawn out ("instance" for "instance_types") is far in letters and near in
  // meaning.
  for (const std::string& candidate : known) {
    const bool longer = candidate.size() > word.size() && candidate.starts_with(word);
    const bool shorter = word.size() > candidate.size() && word.starts_with(candidate);
    if (word.size() >= 4 && (longer || shorter)) return candidate;
  }
  return {};
}

TableReader::TableReader(std::string title, const toml::table& own, const toml::table* fallback,
                         std::vector<Mistake>& mistakes)
    : title_(std::move(title)), own_(own), fallback_(fallback), mistakes_(mistakes) {}

const toml::node* TableReader::find(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  if (const toml::node* node = own_.get(key)) return node;
  return fallback_ != nullptr ? fallback_->get(key) : nullptr;
}

bool TableReader::has(std::string_view key) const {
  return own_.contains(key) || (fallback_ != nullptr && fallback_->contains(key));
}

bool TableReader::inherited(std::string_view key) const {
  return !own_.contains(key) && has(key);
}

std::string TableReader::name_of(std::string_view key) const {
  if (title_.empty()) return std::string(key);
  std::string title = title_;
  constexpr std::string_view kPoolPrefix = "[pool.";
  if (inherited(key) && title.starts_with(kPoolPrefix))
    title.replace(0, kPoolPrefix.size(), "[defaults.");
  return fmt::format("{} {}", title, key);
}

void TableReader::add(const toml::source_position& at, std::string text) {
  mistakes_.push_back({static_cast<int>(at.line), static_cast<int>(at.column), std::move(text)});
}

void TableReader::mistake(std::string_view key, std::string text) {
  const toml::node* node = own_.get(key);
  if (node == nullptr && fallback_ != nullptr) node = fallback_->get(key);
  add(node != nullptr ? node->source().begin : own_.source().begin,
      fmt::format("{}: {}", name_of(key), text));
}

void TableReader::missing(std::string_view key, std::string_view remedy) {
  add(own_.source().begin, fmt::format("{} is missing: {}", name_of(key), remedy));
}

void TableReader::wrong_type(std::string_view key, const toml::node& node,
                             std::string_view expected) {
  add(node.source().begin,
      fmt::format("{}: found {}, write {}", name_of(key), word_for(node.type()), expected));
}

std::optional<std::string> TableReader::text(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (const auto* value = node->as_string()) return value->get();
  wrong_type(key, *node, fmt::format("{} = \"...\"", key));
  return std::nullopt;
}

std::optional<int> TableReader::whole(std::string_view key, int least, int most) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto* value = node->as_integer();
  if (value == nullptr) {
    wrong_type(key, *node,
               fmt::format("a whole number without quotes, e.g. {} = {}", key, std::max(least, 1)));
    return std::nullopt;
  }
  if (value->get() < least || value->get() > most) {
    mistake(key, fmt::format("{} is out of range, write {} to {}", value->get(), least, most));
    return std::nullopt;
  }
  return static_cast<int>(value->get());
}

std::optional<bool> TableReader::flag(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (const auto* value = node->as_boolean()) return value->get();
  wrong_type(key, *node, "true or false without quotes");
  return std::nullopt;
}

std::optional<std::string> TableReader::decimal(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  std::string written;
  if (const auto* whole = node->as_integer()) written = fmt::format("{}", whole->get());
  if (const auto* fraction = node->as_floating_point())
    written = fmt::format("{}", fraction->get());
  if (const auto* quoted = node->as_string()) written = quoted->get();
  if (is_decimal(written)) return written;
  mistake(key,
          fmt::format("{} is not a number, write e.g. {} = \"1.25\"",
                      node->is_string() ? '"' + written + '"' : std::string(word_for(node->type())),
                      key));
  return std::nullopt;
}

std::optional<std::vector<std::string>> TableReader::texts(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const toml::array* array = node->as_array();
  if (array == nullptr) {
    wrong_type(key, *node, fmt::format("a list, {} = [\"...\"]", key));
    return std::nullopt;
  }
  std::vector<std::string> items;
  for (const toml::node& item : *array) {
    if (const auto* value = item.as_string()) {
      items.push_back(value->get());
    } else {
      wrong_type(key, item, fmt::format("only text in quotes in the list {}", key));
    }
  }
  return items;
}

std::optional<std::map<std::string, std::string>> TableReader::text_map(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const toml::table* map = node->as_table();
  if (map == nullptr) {
    wrong_type(key, *node, fmt::format("{} = {{ name = \"value\" }}", key));
    return std::nullopt;
  }
  std::map<std::string, std::string> items;
  for (const auto& [name, value] : *map) {
    if (const auto* string = value.as_string()) {
      items.emplace(name.str(), string->get());
    } else {
      wrong_type(key, value, fmt::format("{} = \"...\" in quotes", name.str()));
    }
  }
  return items;
}

const toml::table* TableReader::table(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return nullptr;
  if (const toml::table* found = node->as_table()) return found;
  wrong_type(key, *node, fmt::format("a table under its own header, ending in {}]", key));
  return nullptr;
}

std::vector<const toml::table*> TableReader::tables(std::string_view key) {
  std::vector<const toml::table*> found;
  const toml::node* node = find(key);
  if (node == nullptr) return found;
  if (node->is_table()) {
    wrong_type(key, *node, fmt::format("[[{}]] with two brackets, once for each {}", key, key));
    found.push_back(node->as_table());
    return found;
  }
  const toml::array* array = node->as_array();
  if (array == nullptr || (!array->empty() && !array->is_array_of_tables())) {
    wrong_type(key, *node, fmt::format("[[{}]] on a line of its own, once for each {}", key, key));
    return found;
  }
  for (const toml::node& item : *array) found.push_back(item.as_table());
  return found;
}

void TableReader::report_unknown() {
  for (const auto& [key, value] : own_) {
    if (std::find(asked_.begin(), asked_.end(), key.str()) != asked_.end()) continue;
    std::string remedy = "remove it or see the README's list of keys";
    const auto* home = std::find_if(std::begin(kHomeOfKey), std::end(kHomeOfKey),
                                    [&](const auto& entry) { return entry.first == key.str(); });
    if (home != std::end(kHomeOfKey)) {
      remedy = fmt::format("it belongs to {}", home->second);
    } else if (const std::string near = nearest_word(key.str(), asked_); !near.empty()) {
      remedy = fmt::format("did you mean {}?", near);
    }
    add(key.source().begin, fmt::format("unknown key {}{}: {}", key.str(),
                                        title_.empty() ? "" : " in " + title_, remedy));
  }
}

}  // namespace warmroot::manager
