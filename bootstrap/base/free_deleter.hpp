// For what C's allocator gave out.
#pragma once

#include <cstdlib>

namespace warmroot {

/// Of a std::unique_ptr to memory from malloc or aligned_alloc.
struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace warmroot
