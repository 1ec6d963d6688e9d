// Answers for people and for programs: one table is printed aligned or as a JSON array of objects.
// Used by cli for all listings; what the words in the cells mean is core's (describe()).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "manager/core/model.hpp"

namespace warmroot::manager {

/// Absent: "-" in a table, null in JSON. A list: its words in a table, an array in JSON.
using Cell =
    std::variant<std::monostate, std::string, std::int64_t, bool, std::vector<std::string>>;
/// A cell that is absent where the text is empty.
Cell text_or_absent(std::string text);

struct Column {
  std::string title;  ///< for people: "SIZE GiB"
  std::string key;    ///< for programs, the unit as the last word: "size_gib"
  bool json_only = false;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  ///< each as long as `columns`
};

enum class OutputForm { table, json };

/// Aligned columns under one title line, numbers to the right; "(none)" without rows. Ends in a
/// newline.
std::string as_text(const Table& table);
/// A JSON array of objects in the order of the rows. Ends in a newline.
std::string as_json(const Table& table);
std::string formatted(const Table& table, OutputForm form);

Table pool_table(const core::Desired& desired, const core::Plan& plan,
                 const std::set<std::string>& paused);
Table node_table(const core::Plan& plan);
Table volume_table(const core::Plan& plan);
/// What would be done: call, resource, node, reason.
Table action_table(const core::Plan& plan);

/// One note as a line without newline: "imagenet-0: no capacity ...".
std::string note_line(const core::Note& note);

}  // namespace warmroot::manager
