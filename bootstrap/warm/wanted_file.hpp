// A file that is worth reading ahead, by its name: as lists of another lineage and the first run's
// guesses know it; and how a guess is asked. What is where, file_finder asks the mounted root.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace warmroot::warm {

struct WantedFile {
  std::string path;  ///< absolute, inside the root; "/x/*": all plain files of /x, "/x/**": and
                     ///< below it
  std::uint64_t offset = 0;           ///< in the file
  std::uint64_t length = UINT64_MAX;  ///< of "/x/*": of each file, from its start; not of "/x/**"
  bool is_program = false;            ///< the libraries that it is linked with are wanted too
  std::string ending = {};            ///< of a pattern's files those alone whose names end so

  bool operator==(const WantedFile&) const = default;
};

/// What it takes a look into the root to know.
struct WantedOfRoot {
  std::vector<WantedFile> first;  ///< before all that is known without it
  std::vector<WantedFile> last;   ///< behind it
};

/// What sessions may want that nobody has recorded. Each is asked once at most; either may be
/// empty.
struct WantedGuess {
  std::function<std::vector<WantedFile>()> names{};  ///< must not wait
  std::function<WantedOfRoot()> of_root{};           ///< on a thread that may wait for the root

  explicit operator bool() const { return names || of_root; }
};

}  // namespace warmroot::warm
