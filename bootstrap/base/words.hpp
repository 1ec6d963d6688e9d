// Small texts: lower case, lists of words, cuts. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace warmroot {

/// ASCII's letters in lower case; every other byte as it is, whatever the locale.
inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// The words with `separator` between them; empty when there are none.
inline std::string joined(const std::vector<std::string>& words, const char* separator = " ") {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

/// At most so many bytes of a stranger's text, in UTF-8 whole characters, and a sign that there was
/// more.
inline std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80) --most;
  return text.substr(0, most) + "...";
}

}  // namespace warmroot
