// Finds things by their ids, of which EC2 gives out thousands: a hash table in one piece of memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace warmroot::core {

/// Open addressing. Ids live elsewhere, at least as long as they are in here. `Value` is cheap to
/// copy: a pointer or a place.
template <typename Value>
class IdIndex {
 public:
  void reserve(std::size_t ids) {
    std::size_t wanted = kLeast;
    while (wanted < 2 * ids) wanted *= 2;
    if (wanted > slots_.size()) grow(wanted);
  }

  /// The value of the id, which may be changed, or nullptr.
  Value* find(std::string_view id) { return const_cast<Value*>(std::as_const(*this).find(id)); }
  const Value* find(std::string_view id) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place_of(slots_, id, hash_of(id))];
    return slot.used() ? &slot.value : nullptr;
  }

  /// Requires: the id is not in here.
  void add(std::string_view id, Value value) {
    if (2 * (size_ + 1) > slots_.size()) grow(std::max(kLeast, 2 * slots_.size()));
    const auto hash = hash_of(id);
    slots_[place_of(slots_, id, hash)] = {id.data(), static_cast<std::uint32_t>(id.size()), hash,
                                          value};
    ++size_;
  }

  /// Those behind it move up, so that no search ends in the gap.
  void remove(std::string_view id) {
    if (slots_.empty()) return;
    const std::size_t mask = slots_.size() - 1;
    std::size_t gap = place_of(slots_, id, hash_of(id));
    if (!slots_[gap].used()) return;
    for (std::size_t next = (gap + 1) & mask; slots_[next].used(); next = (next + 1) & mask) {
      const std::size_t home = slots_[next].hash & mask;
      if (((next - home) & mask) < ((next - gap) & mask)) continue;
      slots_[gap] = slots_[next];
      gap = next;
    }
    slots_[gap] = {};
    --size_;
  }

 private:
  struct Slot {
    const char* id = nullptr;
    std::uint32_t size = 0;
    std::uint32_t hash = 0;
    Value value{};
    bool used() const { return id != nullptr; }
  };
  using Slots = std::vector<Slot>;
  static constexpr std::size_t kLeast = 16;

  /// Of ids the last letters differ.
  static std::uint32_t hash_of(std::string_view id) {
    std::uint64_t last = 0;
    std::uint64_t before = 0;
    const std::size_t some = std::min<std::size_t>(id.size(), 8);
    std::memcpy(&last, id.data() + id.size() - some, some);
    if (id.size() >= 16) std::memcpy(&before, id.data() + id.size() - 16, 8);
    std::uint64_t hash =
        (last ^ (before * 0x9E3779B97F4A7C15ULL) ^ id.size()) * 0xFF51AFD7ED558CCDULL;
    hash ^= hash >> 32;
    return static_cast<std::uint32_t>(hash * 0xC4CEB9FE1A85EC53ULL >> 32);
  }

  /// Where the id is, or the free place where it would be.
  static std::size_t place_of(const Slots& slots, std::string_view id, std::uint32_t hash) {
    const std::size_t mask = slots.size() - 1;
    for (std::size_t place = hash & mask;; place = (place + 1) & mask) {
      const Slot& slot = slots[place];
      if (!slot.used()) return place;
      if (slot.hash == hash && slot.size == id.size() &&
          std::memcmp(slot.id, id.data(), id.size()) == 0)
        return place;
    }
  }

  void grow(std::size_t size) {
    Slots larger(size);
    for (const Slot& slot : slots_)
      if (slot.used()) larger[place_of(larger, {slot.id, slot.size}, slot.hash)] = slot;
    slots_ = std::move(larger);
  }

  Slots slots_;
  std::size_t size_ = 0;
};

}  // namespace warmroot::core
