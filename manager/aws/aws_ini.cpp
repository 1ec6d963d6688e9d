// See aws_ini.hpp.
#include "manager/aws/aws_ini.hpp"

#include <algorithm>
#include <optional>

#include "bootstrap/base/words.hpp"

namespace warmroot::aws {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Cuts a comment off: `#` or `;` behind white space. Inside a word they belong to the value (URLs
/// have them).
std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    const bool marks = text[i] == '#' || text[i] == ';';
    if (marks && (text[i - 1] == ' ' || text[i - 1] == '\t')) return text.substr(0, i);
  }
  return text;
}

/// `profile   x`, `profile x` and `profile "x"` are the same section.
std::string section_name(std::string_view text) {
  std::string out;
  char quote = '\0';
  for (const char c : trim(text)) {
    const bool is_blank = quote == '\0' && (c == ' ' || c == '\t');
    if (is_blank && !out.empty() && out.back() == ' ') continue;
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      out += is_blank ? ' ' : c;
    }
  }
  return out;
}

/// Blanks in front of the first other character.
std::size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

struct Setting {
  std::string key;
  std::string value;
};

std::optional<Setting> split_setting(std::string_view line) {
  const std::size_t separator = line.find_first_of("=:");
  if (separator == std::string_view::npos) return std::nullopt;
  return Setting{
      lower(trim(line.substr(0, separator))),
      std::string(trim(std::string_view(without_comment(line.substr(separator))).substr(1)))};
}

tl::unexpected<Error> wrong_line(int number, const char* what) {
  return fail(ErrorKind::misconfigured, "line " + std::to_string(number) + ": " + what);
}

/// The parser between two lines.
struct IniReader {
  AwsIni ini;
  AwsSection* section = nullptr;
  std::string key;         ///< the last one at the section's own level
  std::size_t indent = 0;  ///< of that key's line
  bool has_block = false;  ///< the key has an empty value: indented lines are settings of its own

  Ok read(std::string_view raw, int number) {
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') return {};
    if (line.front() == '[') {
      const std::size_t close = line.find(']');
      if (close == std::string_view::npos) return wrong_line(number, "a section without ']'");
      section = &ini[section_name(line.substr(1, close - 1))];
      key.clear();
      return {};
    }
    if (!key.empty() && indent_of(raw) > indent) return go_on(line, number);
    const auto setting = split_setting(line);
    if (!setting) return wrong_line(number, "neither section nor key = value");
    if (section == nullptr) return wrong_line(number, "a key before the first [section]");
    if (setting->key.empty()) return wrong_line(number, "a value without a key");
    key = setting->key;
    indent = indent_of(raw);
    has_block = setting->value.empty();
    (*section)[key] = setting->value;
    return {};
  }

  /// A line that belongs to the key above it.
  Ok go_on(std::string_view line, int number) {
    if (!has_block) {
      (*section)[key] += "\n" + std::string(trim(without_comment(line)));
      return {};
    }
    const auto setting = split_setting(line);
    if (!setting || setting->key.empty())
      return wrong_line(number, "neither section nor key = value");
    (*section)[key + "." + setting->key] = setting->value;
    return {};
  }
};

}  // namespace

Result<AwsIni> parse_aws_ini(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  IniReader reader;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    TRY(reader.read(text.substr(0, end), number));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return std::move(reader.ini);
}

}  // namespace warmroot::aws
