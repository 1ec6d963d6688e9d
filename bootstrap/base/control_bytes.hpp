// Text that strangers wrote (file names, output of programs, an os-release) on its way to
// somebody's terminal, where escape sequences would be obeyed. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace warmroot {

/// With a blank for each control character: bytes below 0x20, 0x7f, and U+0080 to U+009F in UTF-8.
inline std::string without_controls(std::string text) {
  const auto byte = [&](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool c1 = byte(at) == 0xc2 && byte(at + 1) >= 0x80 && byte(at + 1) < 0xa0;
    if (c1) text.erase(at, 1);
    if (c1 || byte(at) < 0x20 || byte(at) == 0x7f) text[at] = ' ';
  }
  return text;
}

}  // namespace warmroot
