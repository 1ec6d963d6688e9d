// When the warmer will be done, from how fast it has been of late. Asked by the warmer once a
// progress report. Pure.
#pragma once

#include <cstdint>
#include <optional>

namespace warmroot::warm {

class EtaEstimate {
 public:
  /// So many needed blocks are present (nothing: it is not known what is needed), `interval_ms`
  /// after the last call. The newest interval counts for three tenths; one in which blocks were
  /// lost, or before which their number was not known, does not count.
  void update(std::optional<std::uint64_t> present, std::uint64_t interval_ms);

  /// How long so many blocks will take; nothing while no speed is known, or hardly any is left.
  std::optional<std::uint64_t> ms_for(std::uint64_t blocks) const;

 private:
  double blocks_per_ms_ = 0;
  std::optional<std::uint64_t> present_;
};

}  // namespace warmroot::warm
