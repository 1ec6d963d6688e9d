// The checksum of files that we keep on volumes (FNV-1a, 64 bits): it guards against torn and
// damaged files, not against people; those are met by sampling and bounds. Used by the warm map and
// the hot list. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace warmroot::warm {

/// Of the bytes alone, or going on from the checksum of what stands before them.
constexpr std::uint64_t checksum(std::string_view bytes, std::uint64_t hash = 0xcbf29ce484222325U) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace warmroot::warm
