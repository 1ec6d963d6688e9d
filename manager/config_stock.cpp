#include "manager/config_stock.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace warmroot::manager {
namespace {

/// A week: whoever can wait longer can wait for EC2's own, free loading.
constexpr int kMostReadyWithinSeconds = 7 * 24 * 3600;
/// More tags than any device has.
constexpr int kMostDepth = 1024;
constexpr int kMostWarmMibS = 16'384;
constexpr int kMostPort = 65535;
/// As the bootstrap takes it.
constexpr int kMostLoginWaitS = 600;
constexpr int kSshPort = 22;
/// useradd's limit.
constexpr std::size_t kMostNameCharacters = 32;

/// As the bootstrap takes them from a volume; nothing that a shell or ssh reads as something else.
bool is_user_name(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && name.size() <= kMostNameCharacters && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

void read_release_wish(TableReader& table, const char* key, Milliseconds& wish) {
  if (const auto seconds = table.whole(key, 0, kMostReleaseWishS))
    wish = std::chrono::seconds(*seconds);
}

}  // namespace

core::StockSpec read_stock(TableReader table, int max_nodes) {
  core::StockSpec spec;
  spec.spares = table.whole("spares", 0, max_nodes).value_or(0);
  spec.golden = table.flag("golden").value_or(false);
  spec.ready_within =
      std::chrono::seconds(table.whole("ready_within_s", 0, kMostReadyWithinSeconds).value_or(0));
  spec.copy_usd_gib = table.decimal("copy_usd_gib").value_or("");
  if (spec.golden && spec.ready_within == Milliseconds{0} && !table.has("ready_within_s"))
    table.mistake("golden",
                  "copies of it cost money, so it is of use only with a deadline, write "
                  "ready_within_s = 600 too or remove it");
  else if (spec.golden && spec.ready_within == Milliseconds{0})
    table.mistake("ready_within_s",
                  "0 is no deadline, without which nothing is copied from the golden volume; raise "
                  "it or remove golden");
  table.report_unknown();
  return spec;
}

core::RolloutSpec read_rollout(TableReader table, int max_nodes) {
  using Policy = core::RolloutSpec::Policy;
  core::RolloutSpec spec;
  const auto policy = table.text("policy");
  if (policy == "replace")
    spec.policy = Policy::replace;
  else if (policy && *policy != "keep")
    table.mistake("policy", fmt::format("\"{}\" is no policy, write \"keep\" (nodes keep their "
                                        "volumes) or \"replace\" (they get new ones in turn)",
                                        *policy));
  spec.max_unavailable = table.whole("max_unavailable", 1, max_nodes).value_or(1);
  if (table.has("max_unavailable") && !table.has("policy"))
    table.mistake("max_unavailable",
                  "it limits a rollout, which only policy = \"replace\" allows, write that too or "
                  "remove it");
  table.report_unknown();
  return spec;
}

WarmTable read_warm(TableReader table) {
  WarmTable read;
  core::WarmSpec& spec = read.spec;
  spec.enabled = table.flag("enabled").value_or(true);
  spec.record = table.flag("record").value_or(true);
  spec.max_depth = table.whole("max_depth", 0, kMostDepth).value_or(0);
  read.block_list = table.flag("block_list").value_or(true);
  read.max_mib_s = table.whole("max_mib_s", 0, kMostWarmMibS).value_or(0);
  for (const char* key : {"max_depth", "max_mib_s"})
    if (!spec.enabled && table.has(key))
      table.mistake(key, "nothing is read with enabled = false; remove one of them");
  table.report_unknown();
  return read;
}

SessionTable read_session(TableReader table) {
  SessionTable read;
  core::SessionSpec& spec = read.spec;
  spec.entry = table.text("entry").value_or(spec.entry);
  if (spec.entry != "chroot" && spec.entry != "sshd" && spec.entry != "nspawn")
    table.mistake("entry", fmt::format("\"{}\" is no entry, write \"chroot\" (the base's sshd lets "
                                       "people into the volume), \"sshd\" (the volume's own) or "
                                       "\"nspawn\" (the same under the volume's init)",
                                       spec.entry));
  spec.host_keys = table.flag("host_keys").value_or(true);
  spec.rescue_port = table.whole("rescue_port", 0, kMostPort).value_or(0);
  if (spec.rescue_port == kSshPort)
    table.mistake("rescue_port", "22 is where sessions come in, write another port, e.g. 2222");
  spec.user = table.text("user").value_or("");
  if (table.has("user") && !is_user_name(spec.user))
    table.mistake("user", fmt::format("\"{}\" is no user's name, write e.g. admin", spec.user));
  read.login_wait_s = table.whole("login_wait_s", 0, kMostLoginWaitS);
  read_release_wish(table, "grace_s", spec.release_wishes.grace);
  read_release_wish(table, "hooks_s", spec.release_wishes.hooks);
  table.report_unknown();
  return read;
}

}  // namespace warmroot::manager
