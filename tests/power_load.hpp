// Programs that write to a volume and note, each time the kernel says that something is on the
// medium, what may not be lost from then on: for tests/power_log_test.cpp. A stream that grows by
// fdatasync, files replaced by rename, sectors overwritten in place, files deleted for good, and
// others that never sync.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/sim/write_log.hpp"

namespace warmroot {

/// Of a file or sector, from a place in the log on.
struct Promise {
  std::size_t log_entries = 0;  ///< every prefix that is at least so long keeps it
  std::string name;
  std::uint64_t value =
      0;  ///< bytes of a stream, version of a file or sector, or one of those below
};
inline constexpr std::uint64_t kGone = 0;
inline constexpr std::uint64_t kNothing = ~std::uint64_t{0};  ///< may be there or not

/// What is promised at one place in the log, by name.
using Promised = std::map<std::string, std::uint64_t>;

class PowerLoad {
 public:
  /// Writes below `directory`, which is made, on a volume that `log` records; content follows from
  /// `seed`.
  PowerLoad(std::string directory, const sim::WriteLog& log, std::uint64_t seed)
      : directory_(std::move(directory)), log_(log), seed_(seed) {}

  /// Returns when the time is over and all have ended. Requires: the directory can be written.
  void run(std::chrono::milliseconds time);
  /// In the order of the log.
  std::vector<Promise> promises() const;
  /// One sentence for each promise that what lies below `directory` breaks.
  static std::vector<std::string> broken(const std::string& directory, std::uint64_t seed,
                                         const Promised& promised);

 private:
  void append_stream();
  void replace_files();
  void overwrite_sectors();
  void delete_files();
  void write_unsynced();
  void promise(const std::string& name, std::uint64_t value);
  bool goes_on() const { return std::chrono::steady_clock::now() < end_; }

  const std::string directory_;
  const sim::WriteLog& log_;
  const std::uint64_t seed_;
  std::chrono::steady_clock::time_point end_{};
  mutable std::mutex mutex_;
  std::vector<Promise> promises_;
};

}  // namespace warmroot
