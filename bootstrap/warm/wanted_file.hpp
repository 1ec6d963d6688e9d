// A file that is worth reading ahead, by its name: as lists of another lineage and the first run's
// guesses know it. What is where, file_finder asks the mounted root.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace warmroot::warm
