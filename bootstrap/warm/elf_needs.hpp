// What an ELF program is linked with: its interpreter and needed libraries, as the dynamic loader
// would read them. For file_finder: who starts a program reads these next. Pure but for the reading
// that it is given; files are untrusted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

struct ElfNeeds {
  std::string interpreter;             ///< absolute path; empty: none
  std::vector<std::string> libraries;  ///< as written in the file: names, seldom paths

  bool operator==(const ElfNeeds&) const = default;
};

/// The bytes of a file at a range of it; shorter where the file ends or cannot be read.
using ReadBytes = std::function<std::string(ByteRange)>;

/// Of 64-bit little-endian files; nothing of others, of damaged ones what made sense. Reads a few
/// KiB, 1 MiB at most. At most 256 libraries.
ElfNeeds elf_needs(const ReadBytes& read);

}  // namespace warmroot::warm
