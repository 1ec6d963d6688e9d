// How deep a JSON text nests, told before anything is built of it: writing or copying a document
// recurses as deep as it is, so that a stranger's depth would be our stack. Pure.
#pragma once

#include <string_view>

namespace warmroot {

/// Arrays and objects within each other, more than `most` of them. Of a text that is no JSON it
/// says at least what a parser meets before it gives up.
inline bool nests_deeper(std::string_view text, int most) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace warmroot
