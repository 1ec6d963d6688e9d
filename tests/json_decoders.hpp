// Every JSON that the manager and the bootstrap read: for tests/json_decoders_test.cpp, which holds
// all of them to one table of bad input.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace warmroot {

/// What http.cpp takes of an answer before it gives up; see http_transport_test.
inline constexpr std::size_t kHttpBytes = std::size_t{32} << 20;

/// Whether it was taken for what it should be, or why not. Lenient decoders have no sentence.
struct Outcome {
  bool read = false;
  std::string why;
};

struct Decoder {
  const char* name;
  std::string good;
  std::function<Outcome(const std::string&)> decode;
  /// JSON pointers of members that must be refused when of another type than the good one's;
  /// everything else may be read as if it were not there.
  std::set<std::string> strict;
  std::set<std::string> may_be_null{};  ///< of the strict ones
  std::size_t most_bytes = kHttpBytes;  ///< that its transport lets through
  bool lenient = false;                 ///< refuses without a word: nothing was asked for
  bool empty_is_good = false;
};

inline void PrintTo(const Decoder& decoder, std::ostream* out) {
  *out << decoder.name;
}

std::vector<Decoder> all_decoders();

}  // namespace warmroot
