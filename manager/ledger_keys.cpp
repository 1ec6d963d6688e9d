// See the header. The mutex makes read-compare-write of a sequence one step for the threads of this
// process.
#include "manager/ledger_keys.hpp"

#include <charconv>

namespace warmroot::manager {

Result<std::unique_ptr<LedgerKeys>> LedgerKeys::open(const std::string& path) {
  TRY_ASSIGN(auto database, Database::open(path));
  return std::unique_ptr<LedgerKeys>(new LedgerKeys(std::move(database)));
}

Result<bool> LedgerKeys::add_key(const std::string& instance_id, const Secret& key_hex) {
  const std::lock_guard lock(mutex_);
  TRY(database_.run("INSERT OR IGNORE INTO keys (instance_id, key_hex) VALUES (?, ?)",
                    {instance_id, key_hex.reveal()}));
  return database_.changes() > 0;
}

Result<std::optional<Secret>> LedgerKeys::key_of(const std::string& instance_id) {
  const std::lock_guard lock(mutex_);
  TRY_ASSIGN(const auto rows,
             database_.query("SELECT key_hex FROM keys WHERE instance_id = ?", {instance_id}));
  if (rows.empty()) return std::nullopt;
  return Secret(rows.front().text(0));
}

Result<bool> LedgerKeys::advance(const std::string& instance_id, std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  TRY_ASSIGN(
      const auto rows,
      database_.query("SELECT last_sequence FROM keys WHERE instance_id = ?", {instance_id}));
  if (rows.empty()) return false;
  const std::string text = rows.front().text(0);
  if (!text.empty()) {
    std::uint64_t last = 0;
    std::from_chars(text.data(), text.data() + text.size(), last);
    if (sequence <= last) return false;
  }
  TRY(database_.run("UPDATE keys SET last_sequence = ? WHERE instance_id = ?",
                    {std::to_string(sequence), instance_id}));
  return true;
}

}  // namespace warmroot::manager
