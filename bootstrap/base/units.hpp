// Time and size as types. Wall-clock instants are arguments of the pure code; nothing here reads a clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace warmroot {

using Milliseconds = std::chrono::milliseconds;
/// A wall-clock instant in UTC with millisecond resolution.
using Instant = std::chrono::sys_time<Milliseconds>;

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// "2026-01-02T03:04:05.000Z", the form of EC2's answers.
std::string to_iso8601(Instant instant);
/// "20260102T030405Z", the form of SigV4's x-amz-date.
std::string to_compact_iso8601(Instant instant);
/// Parses both forms of EC2's timestamps, with and without milliseconds; nullopt when malformed.
std::optional<Instant> parse_iso8601(std::string_view text);

}  // namespace warmroot
