// The operator's spec: TOML text to core::Desired and the few settings that are the manager's own.
// Every mistake in the text is found in one pass and told with its place and its remedy; a spec
// with a mistake yields nothing to act upon. Called by cli and, at SIGHUP, by the daemon. Whether
// the things named exist in EC2 is the reconciler's question.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "manager/core/spec.hpp"

namespace warmroot::manager {

/// One thing wrong with a spec. Lines and columns count from 1.
struct Mistake {
  int line = 0;
  int column = 0;
  std::string text;  ///< what is wrong, then what to write instead
  friend bool operator==(const Mistake&, const Mistake&) = default;
};

/// What a pool's nodes are told beside what the core knows of it.
struct TicketSettings {
  int warm_max_mib_s = 0;           ///< of what the warmer brings in; 0: whatever the volume gives
  std::optional<int> login_wait_s;  ///< of sshd for the volume; absent: the bootstrap's default
};

/// A spec that was understood.
struct Config {
  core::Desired desired;
  std::string manager_url;  ///< how instances reach `warmroot serve`; empty: found by the caller
  std::string queue_url;    ///< [events]: EC2's events in an SQS queue; empty: nobody listens
  std::set<std::string> without_block_lists;              ///< pools with warm.block_list = false
  std::map<std::string, TicketSettings> ticket_settings;  ///< of pools that have some
  std::string region;  ///< empty: from the command line or the AWS settings
};

/// What parsing gave: `config` is meaningful only when `mistakes` is empty.
struct ParsedSpec {
  Config config;
  std::vector<Mistake> mistakes;  ///< in the order of the text
};

/// Reads a file that the spec names (launch.user_data), by the path as written there.
using FileReader = std::function<Result<std::string>(const std::string& path)>;

/// Parses and checks a whole spec. Never fails otherwise than by `mistakes`; opens nothing but
/// through `read_file`.
ParsedSpec parse_spec(std::string_view text, const FileReader& read_file);

/// Reads and parses the spec at `path`; files it names are relative to its folder. Errors:
/// misconfigured, with one line for each mistake ("path:line:column: text"), or with the reason why
/// the file cannot be read.
Result<Config> load_spec(const std::string& path);

/// The whole content of a file. Errors: by errno; refused above `limit_bytes`.
Result<std::string> read_text_file(const std::string& path, std::size_t limit_bytes);

}  // namespace warmroot::manager
