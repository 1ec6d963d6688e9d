#include "bootstrap/ticket.hpp"

#include <nlohmann/json.hpp>

namespace warmroot::bootstrap {
namespace {

using Json = nlohmann::json;

/// User-data is 16 KiB at most, and the ticket is a part of it.
constexpr std::size_t kMaxTicketBytes = 16 * 1024;
constexpr int kTicketVersion = 1;
/// An NVMe queue pair takes no more.
constexpr unsigned kMaxDepth = 1024;
constexpr unsigned kMaxWarmMibS = 16384;
/// More than any volume or instance writes.
constexpr unsigned kMostWriteMibS = 100'000;
constexpr unsigned kMaxPort = 65535;
/// Whoever cannot log in after ten minutes takes the instance for dead.
constexpr unsigned kMaxLoginWaitS = 600;

tl::unexpected<Error> wrong(std::string_view what) {
  return fail(ErrorKind::misconfigured, "the ticket " + std::string(what));
}

/// A name goes into paths of reports and into log lines.
bool plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
             std::string::npos;
}

Result<std::string> required_name(const Json& document, const char* key) {
  const auto found = document.find(key);
  if (found == document.end() || !found->is_string() ||
      !plain_name(found->get_ref<const std::string&>()))
    return wrong(std::string("has no \"") + key + "\" made of letters, digits, '-', '_' and '.'");
  return found->get<std::string>();
}

Result<std::string> url_of(const Json& document) {
  const auto found = document.find("manager_url");
  if (found == document.end() || found->is_null()) return std::string();
  if (!found->is_string()) return wrong("has a \"manager_url\" that is not text");
  std::string url = found->get<std::string>();
  while (!url.empty() && url.back() == '/') url.pop_back();
  if (url.empty()) return url;
  if (url.rfind("http://", 0) != 0 || url.find_first_of(" \t\r\n\"") != std::string::npos)
    return wrong("has a \"manager_url\" that does not look like http://host:port: " + url);
  return url;
}

Ok read_warm(const Json& document, Ticket& ticket) {
  const auto warm = document.find("warm");
  if (warm == document.end()) return {};
  if (!warm->is_object()) return wrong("has a \"warm\" that is not an object");
  if (const auto enabled = warm->find("enabled"); enabled != warm->end()) {
    if (!enabled->is_boolean())
      return wrong("has a \"warm.enabled\" that is neither true nor false");
    ticket.warm_enabled = enabled->get<bool>();
  }
  if (const auto record = warm->find("record"); record != warm->end()) {
    if (!record->is_boolean()) return wrong("has a \"warm.record\" that is neither true nor false");
    ticket.record = record->get<bool>();
  }
  if (const auto depth = warm->find("max_depth"); depth != warm->end()) {
    if (!depth->is_number_unsigned() || depth->get<std::uint64_t>() > kMaxDepth)
      return wrong("has a \"warm.max_depth\" that is not a whole number from 0 to 1024");
    ticket.max_depth = depth->get<unsigned>();
  }
  if (const auto rate = warm->find("max_mib_s"); rate != warm->end()) {
    if (!rate->is_number_unsigned() || rate->get<std::uint64_t>() > kMaxWarmMibS)
      return wrong("has a \"warm.max_mib_s\" that is not a whole number from 0 to 16384");
    ticket.max_mib_s = rate->get<unsigned>();
  }
  return {};
}

Ok read_release_wish(const Json& session, const char* key, Milliseconds& wish) {
  const auto seconds = session.find(key);
  if (seconds == session.end()) return {};
  if (!seconds->is_number_unsigned() || seconds->get<std::uint64_t>() > kMostReleaseWishS)
    return wrong(std::string("has a \"session.") + key +
                 "\" that is not a whole number from 0 to " + std::to_string(kMostReleaseWishS));
  wish = std::chrono::seconds(seconds->get<unsigned>());
  return {};
}

Ok read_session(const Json& document, Ticket& ticket) {
  const auto session = document.find("session");
  if (session == document.end()) return {};
  if (!session->is_object()) return wrong("has a \"session\" that is not an object");
  if (const auto write = session->find("write_mib_s"); write != session->end()) {
    if (!write->is_number_unsigned() || *write == 0 || *write > kMostWriteMibS)
      return wrong("has a \"session.write_mib_s\" that is not a whole number from 1 to 100000");
    ticket.write_mib_s = write->get<unsigned>();
  }
  if (const auto entry = session->find("entry"); entry != session->end()) {
    const auto kind =
        entry->is_string() ? entry_kind_from(entry->get<std::string>()) : std::nullopt;
    if (!kind)
      return wrong(
          "asks for a \"session.entry\" other than \"chroot\", \"sshd\" and \"nspawn\", which "
          "this bootstrap cannot do");
    ticket.entry = *kind;
  }
  if (const auto keys = session->find("host_keys"); keys != session->end()) {
    if (!keys->is_boolean())
      return wrong("has a \"session.host_keys\" that is neither true nor false");
    ticket.host_keys = keys->get<bool>();
  }
  if (const auto port = session->find("rescue_port"); port != session->end()) {
    if (!port->is_number_unsigned() || port->get<std::uint64_t>() > kMaxPort)
      return wrong("has a \"session.rescue_port\" that is not a whole number from 0 to 65535");
    ticket.rescue_port = port->get<unsigned>();
  }
  if (const auto wait = session->find("login_wait_s"); wait != session->end()) {
    if (!wait->is_number_unsigned() || wait->get<std::uint64_t>() > kMaxLoginWaitS)
      return wrong("has a \"session.login_wait_s\" that is not a whole number from 0 to 600");
    ticket.login_wait_s = wait->get<unsigned>();
  }
  TRY(read_release_wish(*session, "grace_s", ticket.release_wishes.grace));
  TRY(read_release_wish(*session, "hooks_s", ticket.release_wishes.hooks));
  return {};
}

Ok read_volume(const Json& document, Ticket& ticket) {
  const auto volume = document.find("volume");
  if (volume == document.end()) return {};
  if (!volume->is_object()) return wrong("has a \"volume\" that is not an object");
  if (const auto grow = volume->find("grow"); grow != volume->end()) {
    if (!grow->is_boolean()) return wrong("has a \"volume.grow\" that is neither true nor false");
    ticket.grow = grow->get<bool>();
  }
  return {};
}

}  // namespace

std::string_view to_string(EntryKind entry) {
  switch (entry) {
    case EntryKind::chroot:
      return "chroot";
    case EntryKind::sshd:
      return "sshd";
    case EntryKind::nspawn:
      return "nspawn";
  }
  return "chroot";
}

std::optional<EntryKind> entry_kind_from(std::string_view text) {
  for (const auto entry : {EntryKind::chroot, EntryKind::sshd, EntryKind::nspawn})
    if (text == to_string(entry)) return entry;
  return std::nullopt;
}

Result<Ticket> parse_ticket(std::string_view text) {
  if (text.size() > kMaxTicketBytes) return wrong("is longer than 16 KiB");
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return wrong("is not JSON");
  if (!document.is_object()) return wrong("is not a JSON object");
  const auto version = document.find("version");
  if (version == document.end() || !version->is_number_integer())
    return wrong("has no \"version\"");
  if (*version != kTicketVersion)
    return wrong("has version " + version->dump() + ", this bootstrap reads version 1");
  Ticket ticket;
  TRY_ASSIGN(ticket.deployment, required_name(document, "deployment"));
  TRY_ASSIGN(ticket.pool, required_name(document, "pool"));
  TRY_ASSIGN(ticket.manager_url, url_of(document));
  TRY(read_session(document, ticket));
  TRY(read_warm(document, ticket));
  TRY(read_volume(document, ticket));
  return ticket;
}

}  // namespace warmroot::bootstrap
