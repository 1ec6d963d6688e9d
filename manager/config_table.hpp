// Typed reading of one TOML table that collects mistakes instead of stopping at the first. Used by
// config.cpp alone; it is the only header that lets toml++ through.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manager/config.hpp"

namespace warmroot::manager {

/// Reads keys of `own`, or of `fallback` where `own` lacks them (region-wide defaults). Asking for
/// a key makes it known: `report_unknown` tells of every key of `own` that nobody asked for. A
/// value of the wrong type becomes a mistake and reads as absent. Mistakes in an inherited value
/// are told of the [defaults] table, where they are.
class TableReader {
 public:
  /// `title` is how messages call the table, e.g. "[pool.volumes]". All references outlive the
  /// reader.
  TableReader(std::string title, const toml::table& own, const toml::table* fallback,
              std::vector<Mistake>& mistakes);

  std::optional<std::string> text(std::string_view key);
  std::optional<int> whole(std::string_view key, int least, int most);
  std::optional<bool> flag(std::string_view key);
  /// A number, or text that is one, as decimal text.
  std::optional<std::string> decimal(std::string_view key);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  std::optional<std::map<std::string, std::string>> text_map(std::string_view key);
  /// A table inside this one; null when absent or when it is something else (a mistake).
  const toml::table* table(std::string_view key);
  /// All tables of an array of tables, `[[key]]`.
  std::vector<const toml::table*> tables(std::string_view key);

  /// Is the key written, with whatever value?
  bool has(std::string_view key) const;
  /// Does the value come from the region-wide defaults?
  bool inherited(std::string_view key) const;
  /// A mistake at the key's value, or at the table when the key is not there.
  void mistake(std::string_view key, std::string text);
  /// A mistake at the key: "KEY is missing: REMEDY".
  void missing(std::string_view key, std::string_view remedy);
  /// A mistake for each key of `own` that was never asked for, with the nearest known key or the
  /// table it belongs to.
  void report_unknown();

 private:
  const toml::node* find(std::string_view key);
  void wrong_type(std::string_view key, const toml::node& node, std::string_view expected);
  void add(const toml::source_position& at, std::string text);
  std::string name_of(std::string_view key) const;

  std::string title_;
  const toml::table& own_;
  const toml::table* fallback_;
  std::vector<Mistake>& mistakes_;
  std::vector<std::string> asked_;
};

/// The word of `known` that `word` was probably meant to be; empty when none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace warmroot::manager
