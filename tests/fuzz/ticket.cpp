// The ticket in user-data, which whoever launches an instance may have written. Any text is either
// a ticket or refused; what is read is within the ticket's own bounds, and the manager's rendering
// of it is read as the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "bootstrap/ticket.hpp"
#include "manager/user_data.hpp"

using namespace warmroot;

namespace {

std::string rendered(const bootstrap::Ticket& ticket) {
  manager::Ticket same;
  same.deployment = ticket.deployment;
  same.pool = ticket.pool;
  same.manager_url = ticket.manager_url;
  using bootstrap::EntryKind;
  same.session_entry = ticket.entry == EntryKind::sshd     ? "sshd"
                       : ticket.entry == EntryKind::nspawn ? "nspawn"
                                                           : "chroot";
  same.write_mib_s = ticket.write_mib_s;
  same.host_keys = ticket.host_keys;
  same.rescue_port = ticket.rescue_port;
  same.login_wait_s = ticket.login_wait_s;
  same.release_wishes = ticket.release_wishes;
  same.warm = ticket.warm_enabled;
  same.record = ticket.record;
  same.max_depth = ticket.max_depth;
  return manager::to_json(same);
}

bool equal(const bootstrap::Ticket& one, const bootstrap::Ticket& other) {
  return one.deployment == other.deployment && one.pool == other.pool &&
         one.manager_url == other.manager_url && one.entry == other.entry &&
         one.host_keys == other.host_keys && one.rescue_port == other.rescue_port &&
         one.login_wait_s == other.login_wait_s && one.release_wishes == other.release_wishes &&
         one.warm_enabled == other.warm_enabled && one.record == other.record &&
         one.write_mib_s == other.write_mib_s && one.max_depth == other.max_depth;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto ticket =
      bootstrap::parse_ticket({reinterpret_cast<const char*>(data), size});
  if (!ticket) {
    CHECK(!ticket.error().message().empty());
    return 0;
  }
  CHECK(!ticket->deployment.empty() && ticket->deployment.find('/') == std::string::npos);
  CHECK(!ticket->pool.empty() && ticket->pool.find('/') == std::string::npos);
  CHECK(ticket->manager_url.find('\n') == std::string::npos);
  CHECK(ticket->rescue_port <= 65'535 && ticket->write_mib_s >= 1 && ticket->max_depth <= 1'024);
  CHECK(ticket->login_wait_s <= 600);
  for (const Milliseconds wish : {ticket->release_wishes.grace, ticket->release_wishes.hooks})
    CHECK(wish >= Milliseconds{0} && wish <= std::chrono::seconds{90});
  // Escapes may make the same ticket longer than one may be.
  const std::string text = rendered(*ticket);
  if (text.size() > 16 * 1024) return 0;
  const auto again = bootstrap::parse_ticket(text);
  CHECK(again && equal(*ticket, *again));
  return 0;
}
