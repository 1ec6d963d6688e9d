// Whole numbers as little-endian bytes, as our own files and ext4 have them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace warmroot::warm {

/// The number of `width` (at most 8) bytes from `at` on. Requires them inside `bytes`.
inline std::uint64_t little(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

/// Writes it over `width` bytes from `at` on. Requires them inside `bytes`.
inline void put_little(std::string& bytes, std::size_t at, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

}  // namespace warmroot::warm
