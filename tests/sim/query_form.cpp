// See the header.
#include "tests/sim/query_form.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace warmroot::sim {

namespace {

int hex_digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

bool contains(const Values& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::optional<std::string> url_decode(std::string_view text) {
  if (text.find_first_of("+%") == text.npos) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '+') {
      out += ' ';
    } else if (text[at] == '%') {
      if (at + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[at + 1]), low = hex_digit(text[at + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::string base64_encode(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < left ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) out += i <= left ? kBase64[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int have = 0;
  std::size_t letters = 0, padding = 0;
  for (const char letter : text) {
    if (letter == '\n' || letter == '\r' || letter == ' ') continue;
    ++letters;
    if (letter == '=') {
      ++padding;
      continue;
    }
    const auto value = kBase64.find(letter);
    if (value == std::string_view::npos || padding != 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out += static_cast<char>(bits >> have & 255);
    }
  }
  if (letters % 4 != 0 || padding > 2) return std::nullopt;
  return out;
}

Answer<Form> Form::parse(std::string_view text) {
  Form form;
  while (!text.empty()) {
    const auto pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const auto equals = std::min(pair.find('='), pair.size());
    const auto name = url_decode(pair.substr(0, equals));
    const auto value = url_decode(pair.substr(std::min(pair.size(), equals + 1)));
    if (!name || !value)
      return refuse("MalformedQueryString", "The query string contains a syntax error.");
    if (!form.values_.emplace(*name, *value).second)
      return refuse("MalformedQueryString", "The parameter " + *name + " is given more than once.");
  }
  return form;
}

Form Form::of(std::map<std::string, std::string> values) {
  Form form;
  form.values_ = std::move(values);
  return form;
}

std::string Form::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string() : found->second;
}

Answer<std::optional<int>> Form::integer(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  int value = 0;
  const std::string& digits = found->second;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size())
    return refuse("InvalidParameterValue", "Value (" + digits + ") for parameter " + name +
                                               " is invalid. Expected an integer.");
  return value;
}

Answer<bool> Form::boolean(const std::string& name, bool otherwise) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return otherwise;
  if (found->second == "true") return true;
  if (found->second == "false") return false;
  return refuse("InvalidParameterValue", "Value (" + found->second + ") for parameter " + name +
                                             " is invalid. Expected 'true' or 'false'.");
}

Answer<std::string> Form::required(const std::string& name) const {
  const std::string value = text(name);
  if (value.empty())
    return refuse("MissingParameter", "The request must contain the parameter " + name);
  return value;
}

std::vector<std::string> Form::elements(const std::string& name) const {
  std::set<int> numbers;
  const std::string prefix = name + ".";
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix);
       ++at) {
    const char* begin = at->first.data() + prefix.size();
    int number = 0;
    const auto [end, error] = std::from_chars(begin, at->first.data() + at->first.size(), number);
    if (error == std::errc() && end != begin) numbers.insert(number);
  }
  std::vector<std::string> out;
  for (const int number : numbers) out.push_back(prefix + std::to_string(number));
  return out;
}

std::vector<std::string> Form::list(const std::string& name) const {
  std::vector<std::string> out;
  for (const auto& element : elements(name))
    if (has(element)) out.push_back(text(element));
  return out;
}

Answer<Tags> Form::tag_specification(const std::string& type,
                                     const std::vector<std::string>& allowed) const {
  Tags tags;
  for (const auto& element : elements("TagSpecification")) {
    const std::string resource = text(element + ".ResourceType");
    if (std::find(allowed.begin(), allowed.end(), resource) == allowed.end())
      return refuse("InvalidParameterValue",
                    "'" + resource + "' is not a valid taggable resource type for this operation.");
    if (resource != type) continue;
    for (const auto& tag : elements(element + ".Tag"))
      if (!tags.emplace(text(tag + ".Key"), text(tag + ".Value")).second)
        return refuse("InvalidParameterValue",
                      "Duplicate tag key '" + text(tag + ".Key") + "' specified.");
  }
  return tags;
}

std::string Form::fingerprint() const {
  std::string out;
  for (const auto& [name, value] : values_)
    if (name != "ClientToken") out += name + "=" + value + "\n";
  return out;
}

}  // namespace warmroot::sim
