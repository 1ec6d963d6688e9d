// Why the server refuses a hello or a report, and how often each happened, for /metrics. Used by
// reports.cpp and admission.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace warmroot::manager {

/// Reasons of hellos first; "report" stands for every request that is signed with an instance's
/// key.
enum class Refusal {
  hello_malformed,
  hello_unsigned,        ///< no identity document, where one is asked for
  hello_forged,          ///< a document that no configured certificate signed
  hello_wrong_instance,  ///< signed, but for another instance, image or type
  hello_wrong_account,   ///< or Region
  hello_wrong_address,   ///< not from the instance's private address
  hello_unknown,         ///< EC2 has not shown this instance to us
  hello_key_in_use,      ///< the key was handed out, and is in use
  report_malformed,
  report_forged,      ///< no key, or not signed with it
  report_replayed,    ///< the number of the last one taken
  report_late,        ///< a smaller number: delayed on its way, or replayed
  report_dead_lease,  ///< about a volume that another instance holds by now
};
inline constexpr std::size_t kRefusals = static_cast<std::size_t>(Refusal::report_dead_lease) + 1;

/// Counts since start; from any thread.
class RefusalCounts {
 public:
  void add(Refusal reason) {
    counts_[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
  /// All of them, zeros too, by "hello forged" or "report late".
  std::map<std::string, std::uint64_t> all() const;

 private:
  std::array<std::atomic<std::uint64_t>, kRefusals> counts_{};
};

}  // namespace warmroot::manager
