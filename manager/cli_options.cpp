#include "manager/cli_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "manager/aws/surroundings.hpp"
#include "manager/cli.hpp"
#include "manager/reports.hpp"

namespace warmroot::manager {
namespace {

/// Two volumes and two instances take a minute; capacity may take longer, which the notes then say.
constexpr int kDefaultTimeoutSeconds = 600;
constexpr int kMaxTimeoutSeconds = 7 * 24 * 3600;
/// Somebody who renames a pool or makes a spec anew has a day to see what it orphaned.
constexpr int kDefaultGraceHours = 24;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void add_global_options(CLI::App& app, Options& options, std::string& output) {
  app.add_option("--spec", options.spec, "The spec, a TOML file (env WARMROOT_SPEC)")
      ->capture_default_str();
  app.add_option("--state", options.state, "Folder of the ledger and the lock (env WARMROOT_STATE)")
      ->capture_default_str();
  app.add_option("--region", options.region,
                 "AWS Region; default: the spec's, then AWS_REGION, then the profile's");
  app.add_option("--profile", options.profile, "Profile of the AWS files to take credentials from");
  app.add_option("--endpoint-url", options.endpoint_url,
                 "Where EC2 is, for a simulated Region or a VPC endpoint");
  app.add_option("--bootstrap", options.bootstrap,
                 "The warmroot-bootstrap that instances are to run")
      ->capture_default_str();
  app.add_flag("--verbose", options.verbose,
               "Tells each request to AWS on standard error (as SPDLOG_LEVEL=debug)");
  app.add_option("--output", output, "Form of listings: table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
}

/// Where each command leaves its mark; the App outlives parsing.
struct Commands {
  std::map<const CLI::App*, Command> by_app;

  CLI::App* add(CLI::App& parent, const std::string& name, const std::string& help,
                Command command) {
    CLI::App* app = parent.add_subcommand(name, help);
    by_app[app] = command;
    return app;
  }
};

void add_ami_commands(CLI::App& app, Options& options, Commands& commands) {
  CLI::App* ami = app.add_subcommand("ami", "AMIs as sources of volumes");
  CLI::App* import = commands.add(*ami, "import",
                                  "Makes a snapshot of your own from an AMI whose snapshot you may "
                                  "not use: launches it once, cleans it, ends it",
                                  Command::ami_import);
  import->add_option("AMI", options.ami, "The AMI's id")->required();
  import->add_option("--type", options.instance_type,
                     "Instance type; default: t3.medium or t4g.medium");
  import->add_option("--subnet", options.subnet,
                     "Where to launch; default: a pool's subnet, else EC2's default");
  import->add_option("--pool", options.pool, "The pool whose subnet is taken");
  ami->require_subcommand(1);
}

void add_ssh_commands(CLI::App& app, Options& options, Commands& commands) {
  CLI::App* ssh = commands.add(app, "ssh", "Logs in on a node, wherever it is now", Command::ssh);
  ssh->add_option("NODE", options.subject, "[USER@]NODE")->required();
  ssh->add_option("COMMAND", options.words, "What to run there, behind --");
  commands
      .add(app, "ssh-config", "Prints the nodes' addresses as a configuration of ssh",
           Command::ssh_config)
      ->add_option("POOL", options.pool, "One pool alone");
}

void add_yes(CLI::App& app, Options& options) {
  app.add_flag("--yes", options.yes, "Data of sessions on the volumes may be lost");
}

void add_volume_orders(CLI::App& volume, Options& options, Commands& commands) {
  const auto add = [&](const char* name, const char* help, Command command) {
    CLI::App* made = commands.add(volume, name, help, command);
    made->add_option("VOLUME", options.subject, "vol-...")->required();
    return made;
  };
  add("quarantine", "Sets a free volume aside; its node gets another one",
      Command::volume_quarantine)
      ->add_option("--reason", options.reason, "Shown wherever the volume is listed");
  add("return", "Undoes quarantine", Command::volume_return);
  add_yes(*add("delete", "Deletes a free volume", Command::volume_delete), options);
}

void add_orders(CLI::App& app, Options& options, int& timeout_s, Commands& commands) {
  const auto add = [&](const char* name, const char* help, Command command) {
    CLI::App* made = commands.add(app, name, help, command);
    made->add_option("INSTANCE", options.subject, "i-...")->required();
    made->add_option("--timeout", timeout_s, "Seconds after which the order is taken back")
        ->check(CLI::Range(1, kMaxTimeoutSeconds))
        ->capture_default_str();
    return made;
  };
  add("attach", "Gives an instance, whoever launched it, a volume of a pool", Command::attach)
      ->add_option("--pool", options.pool, "The pool's name")
      ->required();
  add("release", "Takes the volume from an instance, which serves no more", Command::release);
  CLI::App* reap =
      commands.add(app, "reap", "Lists volumes of ours that nothing has a use for", Command::reap);
  reap->add_flag("--delete", options.do_delete, "Delete them, after the grace time");
  reap->add_option_function<int>(
          "--grace-hours", [&](int hours) { options.grace = std::chrono::hours(hours); },
          "Only those without use for so long")
      ->default_val(kDefaultGraceHours)
      ->check(CLI::Range(0, 24 * 365));
  add_yes(*reap, options);
}

void add_commands(CLI::App& app, Options& options, int& timeout_s, Commands& commands) {
  CLI::App* pool = app.add_subcommand("pool", "Pools: volumes of one source with their nodes");
  commands.add(*pool, "list", "All pools of the spec", Command::pool_list);
  commands
      .add(*pool, "pause", "Ends a pool's instances and keeps its volumes", Command::pool_pause)
      ->add_option("NAME", options.pool, "The pool's name")
      ->required();
  commands.add(*pool, "resume", "Undoes pause", Command::pool_resume)
      ->add_option("NAME", options.pool, "The pool's name")
      ->required();
  CLI::App* pool_delete = commands.add(
      *pool, "delete", "Deletes the volumes of a pool that the spec does not name any more",
      Command::pool_delete);
  pool_delete->add_option("NAME", options.pool, "The pool's name")->required();
  pool_delete->add_flag("--keep-volumes", options.keep_volumes,
                        "Forget the pool, keep its volumes");
  add_yes(*pool_delete, options);
  pool->require_subcommand(1);
  CLI::App* node =
      app.add_subcommand("node", "Nodes: each keeps one volume over any number of instances");
  commands.add(*node, "list", "All nodes and where they stand", Command::node_list);
  node->require_subcommand(1);
  CLI::App* volume = app.add_subcommand("volume", "Volumes of this deployment");
  commands.add(*volume, "list", "All volumes and where they stand", Command::volume_list);
  add_volume_orders(*volume, options, commands);
  volume->require_subcommand(1);
  add_orders(app, options, timeout_s, commands);
  commands.add(app, "plan", "Shows what reconcile would do now, and does nothing", Command::plan);
  CLI::App* reconcile =
      commands.add(app, "reconcile", "Looks around in EC2 and does one step of what the plan says",
                   Command::reconcile);
  reconcile->add_flag("--until-stable", options.until_stable, "Go on until every wish is met");
  reconcile->add_option("--timeout", timeout_s, "Seconds after which it gives up, with status 1")
      ->check(CLI::Range(1, kMaxTimeoutSeconds))
      ->capture_default_str();
  CLI::App* serve =
      commands.add(app, "serve", "Keeps the spec met and talks with the bootstraps, until SIGTERM",
                   Command::serve);
  serve
      ->add_option("--listen", options.listen,
                   "HOST:PORT for instances and operators; port 0 chooses a free one")
      ->capture_default_str();
  CLI::Option* certificates =
      serve->add_option("--identity-certificates", options.identity_certificates,
                        "PEM file of AWS's RSA-2048 certificates: instances prove who they are");
  serve
      ->add_flag("--any-address", options.any_address,
                 "Instances may come through NAT or a proxy, not only from their private address")
      ->needs(certificates);
  commands.add(app, "user-data", "Prints the user-data of a pool's instances", Command::user_data)
      ->add_option("POOL", options.pool, "The pool's name")
      ->required();
  add_ssh_commands(app, options, commands);
  add_ami_commands(app, options, commands);
  commands.add(app, "doctor",
               "Checks permissions, clock, AMIs, types, subnets and sizes, and changes nothing",
               Command::doctor);
  app.require_subcommand(1);
}

const CLI::App* chosen(const CLI::App& app) {
  const CLI::App* current = &app;
  while (!current->get_subcommands().empty()) current = current->get_subcommands().front();
  return current;
}

/// CLI11's own words are fine but for their line breaks; one sentence and where to read on.
std::string one_sentence(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (text.ends_with(' ')) text.pop_back();
  return "warmroot: " + text + "; see warmroot --help\n";
}

/// Names the word that is no command, or the commands that one more word is to be chosen from;
/// empty when the mistake is another one.
std::string command_mistake(const CLI::App& app) {
  const CLI::App* at = chosen(app);
  const auto choices = at->get_subcommands([](const CLI::App*) { return true; });
  if (choices.empty()) return {};
  for (const std::string& word : app.remaining(true))
    if (word.starts_with("-"))
      return {};
    else
      return "unknown command " + (at == &app ? word : at->get_name() + " " + word);
  if (at == &app) return {};
  std::string names;
  for (std::size_t i = 0; i < choices.size(); ++i)
    names += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i]->get_name();
  return at->get_name() + " needs " + names;
}

}  // namespace

CommandDefaults defaults_of_this_process() {
  CommandDefaults defaults;
  defaults.spec = variable("WARMROOT_SPEC");
  if (defaults.spec.empty()) defaults.spec = "warmroot.toml";
  defaults.state = variable("WARMROOT_STATE");
  if (defaults.state.empty()) {
    const std::string base = variable("XDG_STATE_HOME");
    defaults.state = (base.empty() ? aws::home_directory() + "/.local/state" : base) + "/warmroot";
  }
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  defaults.bootstrap = (self.parent_path() / "warmroot-bootstrap").string();
  return defaults;
}

ParsedCommandLine parse_command_line(std::vector<std::string> arguments,
                                     const CommandDefaults& defaults) {
  Options options;
  options.spec = defaults.spec;
  options.state = defaults.state;
  options.bootstrap = defaults.bootstrap;
  options.grace = std::chrono::hours(kDefaultGraceHours);
  options.listen = "0.0.0.0:" + std::to_string(kDefaultPort);
  int timeout_s = kDefaultTimeoutSeconds;
  std::string output = "table";
  Commands commands;
  CLI::App app{"Keeps warm EBS volumes and gives each newly launched spot instance one of them.",
               "warmroot"};
  app.set_version_flag("--version", std::string(WARMROOT_VERSION));
  app.fallthrough();
  add_global_options(app, options, output);
  add_commands(app, options, timeout_s, commands);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      const std::string mistake = command_mistake(app);
      return {std::nullopt, one_sentence(mistake.empty() ? error.what() : mistake),
              kBadInputStatus};
    }
    std::ostringstream text;
    app.exit(error, text, text);
    return {std::nullopt, text.str(), 0};
  }
  options.command = commands.by_app.at(chosen(app));
  options.output = output == "json" ? OutputForm::json : OutputForm::table;
  options.timeout = std::chrono::seconds(timeout_s);
  return {std::move(options), {}, 0};
}

}  // namespace warmroot::manager
