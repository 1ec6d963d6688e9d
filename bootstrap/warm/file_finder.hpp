// Where named files lie on the disk, asked of the mounted root itself. In a cold file system every
// lookup waits for one block after another, so many go on at once, on threads of their own. For a
// first run that has no list (first_run_files) and for lists of another lineage, whose files lie
// elsewhere here. Called by session_wishes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
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
inline constexpr std::size_t kMostWantedBytes = 4 * 1024 * 1024;  // of their paths

/// Of a wanted file.
struct FoundFile {
  std::vector<ByteRange> ranges;  ///< relative to the file system's start
  std::uint32_t rank = 1;         ///< 1 and more: the lower, the more it is wanted
  std::string program;            ///< what read_needs wants to be told; empty: nothing
};

class FileFinder {
 public:
  /// Begins at once. Only regular files and directories are ever opened; links are followed inside
  /// the root alone, other mounts are not entered. What is not there is left out.
  /// `of_root` (or none) is asked once for more of them, while others are looked up. At most so
  /// many lookups wait for the device at a time.
  FileFinder(std::string mount_point, std::vector<WantedFile> files,
             std::function<WantedOfRoot()> of_root = {}, unsigned at_once = kMostLookups);
  /// Each waits for one block at a time; a dozen first touches at once are what an NVMe disk does
  /// easily beside the warmer's own.
  static constexpr unsigned kMostLookups = 12;
  FileFinder(const FileFinder&) = delete;
  FileFinder& operator=(const FileFinder&) = delete;
  /// Waits for lookups that wait for the device.
  ~FileFinder();

  /// No lookup is begun any more; waits for none.
  void stop();

  /// What was found since the last call, roughly in the order in which it was wanted.
  std::vector<FoundFile> take();
  /// The content of a program that was found is there now: to ask it for its libraries before would
  /// keep a lookup waiting for what the caller reads anyway. They have the program's rank.
  void read_needs(const std::string& program, std::uint32_t rank);
  /// That content never comes.
  void forget_needs();
  /// Nothing more will be found, and no program waits for read_needs.
  bool is_done() const;

 private:
  struct Wanted {
    WantedFile file;
    std::uint32_t rank = 0;
    bool needs = false;  // its libraries, not its place
  };

  void work(const std::stop_token& stop);
  void ask(const std::function<WantedOfRoot()>& of_root);
  void find(const Wanted& wanted, const std::stop_token& stop);
  void list_directory(int directory, const std::string& path, const Wanted& wanted);
  void want_libraries(int file, std::uint32_t rank);
  void want(std::vector<WantedFile> files, std::uint32_t rank);
  void want_at(std::vector<WantedFile> files, std::uint32_t rank);
  void want_next(std::vector<WantedFile> files);
  std::vector<WantedFile> not_known(std::vector<WantedFile> files);
  UniqueFd open_inside(const std::string& path) const;

  UniqueFd root_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::condition_variable_any rest_;   // of a thread, until it is over or a stop
  std::deque<Wanted> wanted_;          // by rank
  std::map<std::string, bool> known_;  // true: as a program
  std::size_t known_bytes_ = 0;        // of paths
  std::vector<FoundFile> found_;
  std::uint32_t next_rank_ = 1;  // FoundFile's first
  unsigned busy_ = 0;
  unsigned programs_ = 0;              // that wait for read_needs
  std::vector<std::jthread> threads_;  // last, so that they end first
};

}  // namespace warmroot::warm
