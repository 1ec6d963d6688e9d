// FNV-1a with 128 bits; parameters from the algorithm's reference page
// (isthe.com/chongo/tech/comp/fnv).
#include "manager/core/token.hpp"

#include <array>

namespace warmroot::core {

namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr Uint128 make(std::uint64_t high, std::uint64_t low) {
  return (static_cast<Uint128>(high) << 64) | low;
}

constexpr Uint128 kOffsetBasis = make(0x6c62272e07bb0142ULL, 0x62b821756295c58dULL);
constexpr Uint128 kPrime = make(0x0000000001000000ULL, 0x000000000000013bULL);

void add_byte(Uint128& hash, unsigned char byte) {
  hash ^= byte;
  hash *= kPrime;
}

std::uint64_t finish(std::uint64_t half) {
  half ^= half >> 33;
  half *= 0xff51afd7ed558ccdULL;
  half ^= half >> 33;
  half *= 0xc4ceb9fe1a85ec53ULL;
  return half ^ (half >> 33);
}

template <typename Fields>
Uint128 hash_fields(const Fields& fields) {
  Uint128 hash = kOffsetBasis;
  for (const std::string_view field : fields) {
    for (const char digit : std::to_string(field.size()))
      add_byte(hash, static_cast<unsigned char>(digit));
    add_byte(hash, ':');
    for (const char c : field) add_byte(hash, static_cast<unsigned char>(c));
  }
  const std::uint64_t low = finish(static_cast<std::uint64_t>(hash));
  const std::uint64_t high = finish(static_cast<std::uint64_t>(hash >> 64) + low);
  return make(high, low);
}

/// The first hexadecimal digits of a hash, 32 at most.
std::string hex_of(Uint128 hash, std::size_t digits) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text(digits, '0');
  int shift = 128;
  for (auto& digit : text) digit = kHex[static_cast<unsigned>(hash >> (shift -= 4)) & 0xfU];
  return text;
}

/// Asked of every instance in every plan.
std::string deployment_prefix(std::string_view deployment) {
  const std::array<std::string_view, 2> fields = {"deployment", deployment};
  std::string prefix = "wr-";
  prefix.append(hex_of(hash_fields(fields), 8)).append("-");
  return prefix;
}

}  // namespace

std::string hash_text(const std::vector<std::string>& fields) {
  return hex_of(hash_fields(fields), 32);
}

double hash_fraction(const std::vector<std::string>& fields) {
  // The low bits of FNV mix better than the high ones; 53 of them fit a double exactly.
  const auto bits = static_cast<std::uint64_t>(hash_fields(fields)) & ((1ULL << 53) - 1);
  return static_cast<double>(bits) / static_cast<double>(1ULL << 53);
}

std::string client_token(const TokenFacts& facts) {
  return deployment_prefix(facts.deployment) +
         hash_text({std::string(facts.deployment), std::string(facts.action),
                    std::string(facts.pool), facts.subject, std::to_string(facts.generation),
                    std::string(facts.zone)});
}

bool is_own_token(std::string_view deployment, std::string_view token) {
  return token.starts_with(deployment_prefix(deployment));
}

bool is_own_launch(std::string_view deployment, std::string_view token, const TextMap& tags) {
  if (tags.contains(kTagGroup)) return false;
  if (is_own_token(deployment, token)) return true;
  const auto launch = tags.find(kTagLaunch);
  return launch != tags.end() && tags.contains(kTagFleet) &&
         is_own_token(deployment, launch->second);
}

}  // namespace warmroot::core
