// See split_command.hpp.
#include "manager/aws/split_command.hpp"

namespace warmroot::aws {

std::optional<std::vector<std::string>> split_command(std::string_view command) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = '\0';
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    const bool escapes = c == '\\' && quote != '\'';
    if (escapes) {
      if (++i == command.size()) return std::nullopt;
      // Inside double quotes a backslash is itself but before these two.
      if (!word) word.emplace();
      if (quote == '"' && command[i] != '"' && command[i] != '\\') *word += '\\';
      *word += command[i];
    } else if (quote != '\0' && c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
      if (!word) word.emplace();
    } else if (quote == '\0' && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      if (word) words.push_back(std::move(*word));
      word.reset();
    } else {
      if (!word) word.emplace();
      *word += c;
    }
  }
  if (quote != '\0') return std::nullopt;
  if (word) words.push_back(std::move(*word));
  return words;
}

}  // namespace warmroot::aws
