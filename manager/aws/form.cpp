// See form.hpp.
#include "manager/aws/form.hpp"

#include <array>

namespace warmroot::aws {
namespace {

constexpr bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

/// By byte: most of what is encoded is plain.
constexpr auto kUnreserved = [] {
  std::array<bool, 256> plain{};
  for (int byte = 0; byte < 256; ++byte)
    plain[static_cast<std::size_t>(byte)] = is_unreserved(static_cast<char>(byte));
  return plain;
}();

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string percent_encode(std::string_view text) {
  return percent_encode(text, {});
}

std::string percent_encode(std::string_view text, std::string_view also_plain) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (kUnreserved[static_cast<unsigned char>(c)] ||
        also_plain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out += ' ';
    } else if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 &&
               hex_value(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string encode_form(const Form& form) {
  std::string out;
  for (const auto& [key, value] : form) {
    if (!out.empty()) out += '&';
    out += percent_encode(key);
    out += '=';
    out += percent_encode(value);
  }
  return out;
}

Form parse_form(std::string_view text) {
  Form form;
  while (!text.empty()) {
    const std::size_t end = text.find('&');
    const std::string_view part = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    form.emplace_back(
        percent_decode(part.substr(0, equals)),
        equals == std::string_view::npos ? std::string{} : percent_decode(part.substr(equals + 1)));
  }
  return form;
}

std::string_view form_value(const Form& form, std::string_view key) {
  for (const auto& [name, value] : form)
    if (name == key) return value;
  return {};
}

}  // namespace warmroot::aws
