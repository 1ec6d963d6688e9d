// When the warmer will be done, from how fast it has been of late. Asked by the warmer once a
// progress report. Pure.
#pragma once

#include <cstdint>
#include <optional>

namespace warmroot::warm {

class EtaEstimate {
 public:
  /// So many needed blocks are present, `interval_ms` after the last call (0: there was none). The
  /// newest interval counts for three tenths; one in which blocks were lost does not count.
  void update(std::uint64_t present, std::uint64_t interval_ms);

  /// How long so many blocks will take; nothing while no speed is known.
  std::optional<std::uint64_t> ms_for(std::uint64_t blocks) const;

 private:
  double blocks_per_ms_ = 0;
  std::uint64_t present_ = 0;
};

}  // namespace warmroot::warm
