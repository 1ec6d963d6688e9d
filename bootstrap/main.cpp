// warmroot-bootstrap: the one program that user-data starts on an instance. Commands: up, status,
// warm, wait, record, down. Only this file exits, prints errors, and includes CLI11.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bootstrap/commands.hpp"
#include "bootstrap/own_unit.hpp"
#include "bootstrap/record_command.hpp"
#include "bootstrap/ticket.hpp"

namespace {

int answer(const warmroot::Ok& result, int failed = 1) {
  if (result) return 0;
  std::fprintf(stderr, "warmroot-bootstrap: %s\n", result.error().message().c_str());
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace warmroot;
  CLI::App app{"Gives this instance its pool's volume as root of SSH sessions."};
  app.set_version_flag("--version", WARMROOT_VERSION);
  app.require_subcommand(1);
  std::string ticket;
  bool foreground = false, in_unit = false, json = false;
  CLI::App* up = app.add_subcommand(
      "up", "Prepare sshd, then find, mount and warm the volume in the background");
  up->add_option("--ticket", ticket, "File with the ticket from user-data (JSON)")->required();
  up->add_flag("--foreground", foreground, "Stay until the volume was released");
  up->add_flag("--in-unit", in_unit)->group("");  // for `up` itself
  CLI::App* status = app.add_subcommand("status", "Show the timeline and the state of warming");
  status->add_flag("--json", json, "Print the status document");
  CLI::App* warm =
      app.add_subcommand("warm", "Show how far warming is, until all needed blocks are there");
  bootstrap::RecordWish wish;
  std::int64_t seconds = wish.limit.count();
  CLI::App* record =
      app.add_subcommand("record", "Record what is read of the volume, until Ctrl-C");
  record->add_option("--workload", wish.workload, "What such sessions are called");
  record->add_option("--output", wish.output, "A file for the list, not the volume's own");
  record->add_option("--seconds", seconds, "At most so long")
      ->capture_default_str()
      ->check(CLI::Range(1, 86'400));
  std::int64_t wait_seconds = bootstrap::kDefaultLoginWaitS;
  CLI::App* wait = app.add_subcommand(
      "wait", "Wait until sessions land in the volume; fails where they will not, or not in time");
  wait->add_option("--seconds", wait_seconds, "At most so long")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
  app.add_subcommand("down", "Release the volume: end its sessions, sync, unmount");
  CLI11_PARSE(app, argc, argv);
  using bootstrap::UpMode;
  if (up->parsed() && in_unit)
    return answer(bootstrap::up(ticket, UpMode::in_unit), bootstrap::kFailedInUnit);
  if (up->parsed())
    return answer(bootstrap::up(ticket, foreground ? UpMode::foreground : UpMode::usual));
  if (status->parsed()) return answer(bootstrap::print_status(json));
  if (warm->parsed()) return answer(bootstrap::watch_warming());
  if (wait->parsed())
    return answer(bootstrap::wait_for_sessions(std::chrono::seconds(wait_seconds)));
  if (record->parsed()) {
    wish.limit = std::chrono::seconds(seconds);
    return answer(bootstrap::record(wish));
  }
  return answer(bootstrap::down());
}
