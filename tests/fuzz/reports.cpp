// What anybody may post to the manager: reports and hellos. Any body is either read or refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "manager/reports_codec.hpp"

using namespace warmroot;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0)
    (void)manager::parse_hello(body);
  else
    (void)manager::parse_report(body);
  return 0;
}
