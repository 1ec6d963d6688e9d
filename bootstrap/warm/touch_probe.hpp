// Does one 4 KiB read bring its whole 512 KiB block in? AWS says so of snapshots, nobody of
// volumes; so the pump reads the other half of the first cold blocks it touches, and this decides.
// Pure.
#pragma once

#include <chrono>

namespace warmroot::warm {

enum class TouchVerdict { unknown, suffices, read_whole };

class TouchProbe {
 public:
  /// Whether reading again inside a block whose first read took `first` can tell anything: faster
  /// than this it was no first touch.
  static bool is_telling(std::chrono::microseconds first);

  /// A read of a block's other half right after its first touch.
  void second_read(std::chrono::microseconds first, std::chrono::microseconds second);

  /// The majority of an odd number of tries; unknown before. Never changes afterwards.
  TouchVerdict verdict() const { return verdict_; }

 private:
  unsigned fast_ = 0;
  unsigned slow_ = 0;
  TouchVerdict verdict_ = TouchVerdict::unknown;
};

}  // namespace warmroot::warm
