#include "manager/refusal.hpp"

namespace warmroot::manager {
namespace {

/// In the order of the enum.
constexpr std::array<const char*, kRefusals> kWords = {
    "hello malformed",     "hello unsigned",      "hello forged",    "hello wrong_instance",
    "hello wrong_account", "hello wrong_address", "hello unknown",   "hello key_in_use",
    "report malformed",    "report forged",       "report replayed", "report late",
    "report dead_lease"};

}  // namespace

std::map<std::string, std::uint64_t> RefusalCounts::all() const {
  std::map<std::string, std::uint64_t> all;
  for (std::size_t i = 0; i < kRefusals; ++i)
    all[kWords[i]] = counts_[i].load(std::memory_order_relaxed);
  return all;
}

}  // namespace warmroot::manager
