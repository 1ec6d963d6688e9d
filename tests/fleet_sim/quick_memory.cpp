// operator new, and SQLite's allocator, for fleet_sim and its tests: a quarter of a run's time goes
// to pieces of a few dozen bytes, so freed ones are kept by size, each thread its own, and never
// given back. Not linked under sanitizers, which have their own.
#include <malloc.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr std::size_t kStep = 32;
constexpr std::size_t kClasses = 32;  ///< larger pieces, header and all, are malloc's
constexpr std::size_t kChunk = std::size_t{1} << 18;

/// In front of each piece; as large as the strictest alignment of new.
struct alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) Header {
  std::size_t size_class;
};
struct Free {
  Free* next;
};

thread_local Free* kept[kClasses + 1];
thread_local char* chunk;
thread_local std::size_t left;

void* carve(std::size_t size) {
  if (left < size) {
    chunk = static_cast<char*>(std::malloc(kChunk));
    if (chunk == nullptr) throw std::bad_alloc();
    left = kChunk;
  }
  void* piece = chunk;
  chunk += size;
  left -= size;
  return piece;
}

void* take(std::size_t wanted) {
  const std::size_t size_class = (wanted + sizeof(Header) + kStep - 1) / kStep;
  if (size_class <= kClasses)
    if (Free* piece = kept[size_class]) {
      kept[size_class] = piece->next;
      return piece;
    }
  const bool large = size_class > kClasses;
  void* piece = large ? std::malloc(wanted + sizeof(Header)) : carve(size_class * kStep);
  if (piece == nullptr) throw std::bad_alloc();
  auto* header = new (piece) Header{large ? kClasses + 1 : size_class};
  return header + 1;
}

void give_back(void* piece) {
  if (piece == nullptr) return;
  auto* header = static_cast<Header*>(piece) - 1;
  if (header->size_class > kClasses) return std::free(header);
  auto& list = kept[header->size_class];
  list = new (piece) Free{list};
}

std::size_t size_of(void* piece) {
  const auto* header = static_cast<Header*>(piece) - 1;
  if (header->size_class > kClasses)
    return ::malloc_usable_size(static_cast<Header*>(piece) - 1) - sizeof(Header);
  return header->size_class * kStep - sizeof(Header);
}

void* resize(void* piece, int wanted) {
  const auto size = static_cast<std::size_t>(wanted);
  const auto had = size_of(piece);
  if (size <= had && 2 * size >= had) return piece;
  void* other = take(size);
  std::memcpy(other, piece, std::min(size, had));
  give_back(piece);
  return other;
}

/// As sqlite3.h describes the methods of an allocator; and no counts of what is allocated, which
/// would take a lock for each piece.
const bool sqlite_uses_it = [] {
  static sqlite3_mem_methods methods{
      .xMalloc = [](int size) { return take(static_cast<std::size_t>(size)); },
      .xFree = give_back,
      .xRealloc = resize,
      .xSize = [](void* piece) { return static_cast<int>(size_of(piece)); },
      .xRoundup = [](int size) { return (size + 7) & ~7; },
      .xInit = [](void*) { return SQLITE_OK; },
      .xShutdown = [](void*) {},
      .pAppData = nullptr};
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK &&
         sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK;
}();

}  // namespace

void* operator new(std::size_t size) {
  return take(size);
}
void operator delete(void* piece) noexcept {
  give_back(piece);
}
void operator delete(void* piece, std::size_t) noexcept {
  give_back(piece);
}
