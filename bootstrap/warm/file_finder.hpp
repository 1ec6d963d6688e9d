// Where named files lie on the disk, asked of the mounted root itself. In a cold file system every
// lookup waits for one block after another, so many go on at once, on threads of their own. For a
// first run that has no list (first_run_files) and for lists of another lineage, whose files lie
// elsewhere here. Called by session_wishes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/wanted_file.hpp"

namespace warmroot::warm {

/// Of one file that is wanted whole.
inline constexpr std::uint64_t kMostFileRead = 64 * 1024 * 1024;
/// A list and what it leads to: entries of directories, libraries.
inline constexpr std::size_t kMostWanted = 32'768;

class FileFinder {
 public:
  /// Begins at once. Only regular files and directories are ever opened; links are followed inside
  /// the root alone, other mounts are not entered. What is not there is left out.
  /// `guess` (or none) is asked once for more of them, on a thread that may wait for the root. At
  /// most so many lookups wait for the device at a time.
  FileFinder(std::string mount_point, std::vector<WantedFile> files,
             std::function<std::vector<WantedFile>()> guess = {}, unsigned at_once = kMostLookups);
  /// Each waits for one block at a time; a dozen first touches at once are what an NVMe disk does
  /// easily beside the warmer's own.
  static constexpr unsigned kMostLookups = 12;
  FileFinder(const FileFinder&) = delete;
  FileFinder& operator=(const FileFinder&) = delete;
  /// Waits for lookups that wait for the device.
  ~FileFinder();

  /// No lookup is begun any more; waits for none.
  void stop();

  /// What was found since the last call, relative to the file system's start, roughly in the order
  /// in which it was wanted.
  std::vector<ByteRange> take();
  /// Nothing more will be found.
  bool is_done() const;

 private:
  void work(const std::stop_token& stop);
  void take_guess(const std::function<std::vector<WantedFile>()>& guess);
  void find(const WantedFile& file, const std::stop_token& stop);
  void list_directory(int directory, const std::string& path, bool deep);
  void want_libraries(int file);
  void want_first(std::vector<WantedFile> files);
  std::vector<WantedFile> not_known(std::vector<WantedFile> files);
  UniqueFd open_inside(const std::string& path) const;

  UniqueFd root_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<WantedFile> wanted_;
  std::set<std::string> known_;
  std::vector<ByteRange> found_;
  unsigned busy_ = 0;
  std::vector<std::jthread> threads_;  // last, so that they end first
};

}  // namespace warmroot::warm
