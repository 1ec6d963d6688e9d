// What an ELF file says of itself. What it is linked with, its interpreter and needed libraries, as
// the dynamic loader would read them, for file_finder: who starts a program reads these next. And
// which kernel it is made for, for preflight. Pure but for the reading that it is given; files are
// untrusted.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
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

/// {6, 1, 0}; of two the greater is the newer.
using KernelVersion = std::array<std::uint32_t, 3>;

/// The oldest Linux that the file is made for, by its note (NT_GNU_ABI_TAG), which glibc's own
/// libraries have; nullopt where it has none. Of files as above. Reads a few KiB, 256 at most.
std::optional<KernelVersion> elf_least_kernel(const ReadBytes& read);

}  // namespace warmroot::warm
