// The command line of `warmroot` as a struct. The only file that includes CLI11 is cli_options.cpp;
// what the commands do is cli.cpp's.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "manager/output.hpp"

namespace warmroot::manager {

enum class Command {
  pool_list,
  pool_pause,
  pool_resume,
  pool_delete,
  node_list,
  volume_list,
  volume_quarantine,
  volume_return,
  volume_delete,
  attach,
  release,
  reap,
  plan,
  reconcile,
  serve,
  user_data,
  ami_import,
  doctor,
  ssh,
  ssh_config
};

struct Options {
  Command command = Command::plan;
  std::string pool;     ///< of pool pause, resume and delete, attach, user-data and ssh-config
  std::string subject;  ///< the instance or volume of an order, [USER@]NODE of ssh
  std::vector<std::string> words;  ///< of ssh: what the session runs
  std::string reason;              ///< of volume quarantine
  bool yes = false;                ///< data of sessions may be lost
  bool keep_volumes = false;
  bool do_delete = false;       ///< of reap
  std::chrono::hours grace{0};  ///< of reap
  // Global.
  std::string endpoint_url;
  std::string region;
  std::string profile;
  std::string spec;       ///< a path
  std::string state;      ///< a folder
  std::string bootstrap;  ///< path of warmroot-bootstrap
  OutputForm output = OutputForm::table;
  bool verbose = false;  ///< requests and credentials' sources on stderr
  // Of single commands.
  bool until_stable = false;
  std::chrono::seconds timeout{0};
  std::string listen;
  std::string identity_certificates;  ///< a path; empty: identities are not verified
  bool any_address = false;           ///< hellos need not come from the instance's own address
  std::string ami;                    ///< of ami import; these too
  std::string instance_type;          ///< empty: a small one
  std::string subnet;                 ///< empty: the pool's, or EC2's default
};

/// What the environment contributes: defaults of options, and where this program lies.
struct CommandDefaults {
  std::string spec;
  std::string state;
  std::string bootstrap;
};

/// WARMROOT_SPEC or warmroot.toml; WARMROOT_STATE, $XDG_STATE_HOME/warmroot or
/// ~/.local/state/warmroot; warmroot-bootstrap beside this program.
CommandDefaults defaults_of_this_process();

/// Either options, or the text to print and the status to exit with (help, version, a mistake).
struct ParsedCommandLine {
  std::optional<Options> options;
  std::string text;
  int exit_status = 0;
};

/// `arguments` without the program's name. Global options are taken before and after the command.
ParsedCommandLine parse_command_line(std::vector<std::string> arguments,
                                     const CommandDefaults& defaults);

}  // namespace warmroot::manager
