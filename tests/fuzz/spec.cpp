// Any text is either a spec or a list of mistakes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "manager/config.hpp"

using namespace warmroot;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto no_files = [](const std::string&) -> Result<std::string> { return fail(ErrorKind::gone, "no file"); };
  (void)manager::parse_spec(text, no_files);
  return 0;
}
