// Names as fstab(5), /proc/swaps and mountinfo write them. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace warmroot {

/// "\040" is a blank; a backslash before anything but three octal digits of one byte stays.
inline std::string without_octal_escapes(std::string_view text) {
  const auto is_digit = [&](std::size_t at, char most) {
    return at < text.size() && text[at] >= '0' && text[at] <= most;
  };
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && is_digit(at + 1, '3') && is_digit(at + 2, '7') &&
        is_digit(at + 3, '7')) {
      plain += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 +
                                 (text[at + 3] - '0'));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

}  // namespace warmroot
