#include "bootstrap/held_record.hpp"

#include <unistd.h>

#include "bootstrap/base/log.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {

constexpr std::size_t kMaxHeldRecord = 4 * 1024 * 1024;

Ok keep_held_record(const HeldRecord& record) {
  return write_file_atomic(kHeldRecord, held_document(record), 0600);
}

std::optional<HeldRecord> held_record() {
  const auto text = read_file(kHeldRecord, kMaxHeldRecord);
  if (!text && text.error().kind == ErrorKind::gone) return std::nullopt;
  auto record = text ? parse_held_document(*text) : Result<HeldRecord>(fail(text.error()));
  if (record) return std::move(*record);
  log_event(LogLevel::warning, "what an earlier bootstrap holds is not known",
            {{"why", record.error().message()}});
  return std::nullopt;
}

void forget_held_record() {
  ::unlink(kHeldRecord);
}

}  // namespace warmroot::bootstrap
