// What happened in a run, one line an event: the last ones are printed with a violation, and all of
// them are hashed, so that two runs of one seed can be compared.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "bootstrap/base/units.hpp"

namespace warmroot::fleet {

class Trace {
 public:
  /// `kept`: lines that are remembered.
  Trace(Instant start, std::size_t kept) : start_(start), kept_(kept) {}

  void add(Instant now, const std::string& text);
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }
  std::uint64_t hash() const { return hash_; }
  std::uint64_t steps() const { return steps_; }

 private:
  Instant start_;
  std::size_t kept_;
  std::deque<std::string> lines_;
  std::uint64_t hash_ = 14695981039346656037ULL;
  std::uint64_t steps_ = 0;
};

}  // namespace warmroot::fleet
