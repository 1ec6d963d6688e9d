// See http_date.hpp.
#include "manager/aws/http_date.hpp"

#include <ctime>

namespace warmroot::aws {

std::optional<Instant> parse_http_date(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  return Instant(std::chrono::seconds(::timegm(&parts)));
}

}  // namespace warmroot::aws
