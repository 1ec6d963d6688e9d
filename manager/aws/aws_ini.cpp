// See aws_ini.hpp.
#include "manager/aws/aws_ini.hpp"

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

/// "profile   x" and "profile x" are the same section.
std::string single_spaced(std::string_view text) {
  std::string out;
  for (const char c : trim(text)) {
    const char plain = c == '\t' ? ' ' : c;
    if (plain == ' ' && !out.empty() && out.back() == ' ') continue;
    out += plain;
  }
  return out;
}

tl::unexpected<Error> wrong_line(int number, const char* what) {
  return fail(ErrorKind::misconfigured, "line " + std::to_string(number) + ": " + what);
}

}  // namespace

Result<AwsIni> parse_aws_ini(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  AwsIni ini;
  AwsSection* section = nullptr;
  std::string block;  // the key with an empty value that indented lines belong to
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view raw = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      const std::size_t close = line.find(']');
      if (close == std::string_view::npos) return wrong_line(number, "a section without ']'");
      section = &ini[single_spaced(line.substr(1, close - 1))];
      block.clear();
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos)
      return wrong_line(number, "neither section nor key = value");
    if (section == nullptr) return wrong_line(number, "a key before the first [section]");
    const bool indented = raw.front() == ' ' || raw.front() == '\t';
    const std::string key(trim(line.substr(0, equals)));
    const std::string value(trim(without_comment(line.substr(equals))).substr(1));
    if (key.empty()) return wrong_line(number, "a value without a key");
    if (indented && !block.empty()) {
      (*section)[block + "." + key] = trim(value);
    } else {
      (*section)[key] = trim(value);
      block = trim(value).empty() ? key : std::string{};
    }
  }
  return ini;
}

}  // namespace warmroot::aws
