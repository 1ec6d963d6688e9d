// xfs's superblock, group headers and nodes of free-space trees, made by hand for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/warm/fs_layout.hpp"

namespace warmroot::warm {

inline std::string number(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = width - 1; i >= 0; --i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// Four groups of 64 blocks of 4 KiB.
inline std::string small_super() {
  std::string super(kSuperblockBytes, '\0');
  super.replace(0, 16, "XFSB" + number(4096, 4) + number(256, 8));
  super.replace(84, 8, number(64, 4) + number(4, 4));
  super.replace(102, 2, number(512, 2));
  super[124] = 6;
  return super;
}

inline std::string header(std::uint64_t group, std::uint64_t root, std::uint64_t levels) {
  std::string text = "XAGF" + number(1, 4) + number(group, 4) + number(64, 4) + number(root, 4) +
                     number(0, 8) + number(levels, 4);
  text.resize(512);
  return text;
}

inline std::string node(const char* magic, std::uint64_t level,
                        const std::vector<std::uint64_t>& below, std::uint64_t bytes = 4096) {
  std::string text(bytes, '\0');
  const std::size_t begin = magic == std::string_view("AB3B") ? 56 : 16;
  const std::size_t room = (bytes - begin) / 12;
  const std::size_t records = std::min(below.size(), room);
  text.replace(0, 8, magic + number(level, 2) + number(records, 2));
  for (std::size_t i = 0; i < records; ++i)
    text.replace(begin + 8 * room + 4 * i, 4, number(below[i], 4));
  return text;
}

}  // namespace warmroot::warm
