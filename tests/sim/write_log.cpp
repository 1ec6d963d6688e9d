#include "tests/sim/write_log.hpp"

#include <algorithm>
#include <utility>

#include "tests/sim/ebs_disk.hpp"

namespace warmroot::sim {

void WriteLog::append(LoggedWrite entry) {
  const std::lock_guard lock(mutex_);
  entries_.push_back(std::move(entry));
}

std::size_t WriteLog::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::vector<LoggedWrite> WriteLog::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(entries_, {});
}

std::vector<const LoggedWrite*> PowerCutReplay::advance(std::size_t entries) {
  CHECK(entries >= at_ && entries <= log_.size());
  std::vector<const LoggedWrite*> durable;
  for (; at_ < entries; ++at_) {
    const LoggedWrite& entry = log_[at_];
    if (!entry.is_flush()) {
      pending_.push_back(&entry);
      continue;
    }
    std::deque<const LoggedWrite*> left;
    for (const LoggedWrite* write : pending_)
      if (write->answered <= entry.arrived)
        durable.push_back(write);
      else
        left.push_back(write);
    pending_ = std::move(left);
  }
  return durable;
}

std::vector<PowerCutReplay::Page> PowerCutReplay::survivors(std::mt19937_64& random) const {
  const std::uint64_t kind = random() % 4;  // all lost, all kept, and twice as often half of it
  std::vector<Page> pages;
  for (const LoggedWrite* write : pending_) {
    const std::span<const char> bytes(write->bytes);
    for (std::uint64_t at = 0; at < bytes.size();) {
      const std::uint64_t offset = write->offset + at;
      const std::uint64_t length =
          std::min<std::uint64_t>(kDiskPage - offset % kDiskPage, bytes.size() - at);
      const bool kept = kind == 1 || (kind > 1 && (random() & 1) != 0);
      if (kept) pages.push_back({offset, bytes.subspan(at, length)});
      at += length;
    }
  }
  return pages;
}

}  // namespace warmroot::sim
