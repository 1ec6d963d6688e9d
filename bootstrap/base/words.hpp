// Small texts: lower case and lists of words. Pure.
#pragma once

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

}  // namespace warmroot
