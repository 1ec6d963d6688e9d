// warmroot-sim: the simulated region as a program. `serve` is the region; `interrupt`, `crash`,
// `power-off` and `state` are the operator's calls to a running one; `relay` is what QEMU starts for a guest's
// metadata connections.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "tests/sim/physical.hpp"
#include "tests/sim/server.hpp"
#include "tests/sim/server_options.hpp"
#include "tests/sim/server_relay.hpp"

namespace warmroot::sim {
namespace {

void log_line(const std::string& text) {
  const Instant now = std::chrono::floor<Milliseconds>(std::chrono::system_clock::now());
  std::fprintf(stderr, "%s %s\n", to_iso8601(now).c_str(), text.c_str());
}

/// What stands behind volumes and machines: FUSE and QEMU, or with --no-machines nothing at all.
Result<std::unique_ptr<Hardware>> make_hardware(const Options& options, const Catalog& catalog) {
  if (options.no_machines) return std::make_unique<NoHardware>();
  PhysicalOptions physical;
  physical.directory = std::filesystem::absolute(options.directory);
  for (const auto& snapshot : catalog.snapshots)
    if (!snapshot.image_file.empty())
      physical.snapshots[snapshot.id] = std::filesystem::absolute(snapshot.image_file);
  for (const auto& image : catalog.images)
    if (const auto found = physical.snapshots.find(image.snapshot_id);
        found != physical.snapshots.end())
      physical.images[image.id] = found->second;
  physical.kernel = std::filesystem::absolute(options.kernel);
  physical.relay_program = std::filesystem::read_symlink("/proc/self/exe");
  physical.manager_port = options.manager_port;
  physical.profile = options.profile;
  physical.seed = options.seed;
  TRY_ASSIGN(auto hardware, PhysicalHardware::start(std::move(physical)));
  log_line("machines ready accelerator=" + hardware->accelerator());
  return std::unique_ptr<Hardware>(std::move(hardware));
}

int signal_pipe = -1;

void on_signal(int) {
  const char byte = 0;
  (void)!::write(signal_pipe, &byte, 1);
}

/// SIGTERM and SIGINT make the returned descriptor readable. Handlers, not a mask: QEMU would
/// inherit that.
UniqueFd catch_signals() {
  int ends[2];
  CHECK(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  signal_pipe = ends[1];
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  return UniqueFd(ends[0]);
}

/// For `warmroot serve --identity-certificates`.
Ok write_certificate(const std::string& directory, const std::string& pem) {
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const std::string path = directory + "/identity.pem";
  std::ofstream file(path);
  file << pem;
  file.close();
  if (!file) return fail(ErrorKind::misconfigured, "cannot write " + path);
  return {};
}

Ok serve(const Options& options) {
  const UniqueFd stop = catch_signals();
  TRY_ASSIGN(const Catalog catalog, load_catalog(options));
  TRY_ASSIGN(const auto hardware, make_hardware(options, catalog));
  const Instant now = std::chrono::floor<Milliseconds>(std::chrono::system_clock::now());
  Region region(catalog, options.times, *hardware, now, options.seed);
  region.knobs.page_cap = options.page_cap;
  region.on_event = log_line;
  RegionServer server(region, {options.port,
                               {options.access_key, options.secret_key, options.region},
                               options.throttle_scale,
                               options.credential_life});
  TRY(write_certificate(options.directory, server.identity_certificate()));
  TRY(server.start());
  std::printf("endpoint=%s\n", server.endpoint().c_str());
  std::fflush(stdout);
  pollfd wait{stop.get(), POLLIN, 0};
  while (::poll(&wait, 1, -1) < 0 && errno == EINTR) continue;
  log_line("stopping");
  server.stop();
  return {};
}

/// One call to a running region's control; prints its answer.
Ok call_control(const std::string& endpoint, const std::string& method, const std::string& what) {
  if (endpoint.empty())
    return fail(ErrorKind::misconfigured,
                "which region? Give --endpoint-url or set WARMROOT_SIM_URL");
  HttpClient client;
  HttpRequest request;
  request.method = method;
  request.url = endpoint + "/_control/" + what;
  TRY_ASSIGN(const HttpReply reply, client.perform(request));
  if (reply.status != 200)
    return fail(ErrorKind::refused,
                "the region answered " + std::to_string(reply.status) + ": " + reply.body);
  if (method == "GET") std::fputs(reply.body.c_str(), stdout);
  return {};
}

void add_time(CLI::App* command, const std::string& name, Milliseconds& target,
              const std::string& help) {
  command
      ->add_option_function<std::int64_t>(
          name, [&target](std::int64_t value) { target = Milliseconds(value); }, help)
      ->check(CLI::NonNegativeNumber)
      ->type_name("MS");
}

void add_times(CLI::App* command, RegionTimes& times) {
  add_time(command, "--creating-ms", times.creating, "CreateVolume to available (1500)");
  add_time(command, "--pending-ms", times.pending, "RunInstances to running (5000)");
  add_time(command, "--attach-ms", times.attaching, "AttachVolume to attached (2000)");
  add_time(command, "--detach-ms", times.detaching, "DetachVolume to gone once unmounted (2000)");
  add_time(command, "--shutdown-ms", times.shutting_down, "least time of shutting-down (15000)");
  add_time(command, "--shutdown-max-ms", times.shutting_down_max,
           "a guest is cut off after this (60000)");
  add_time(command, "--deleting-ms", times.deleting, "DeleteVolume to gone (1000)");
  add_time(command, "--terminated-ms", times.terminated_visible,
           "terminated instances stay listed (3600000)");
  add_time(command, "--notice-ms", times.notice, "spot notice to reclaim (120000)");
  add_time(command, "--visibility-ms", times.visibility,
           "new resources are not found for so long (0)");
  command->add_option("--jitter", times.jitter, "share by which each time varies (0)")
      ->check(CLI::Range(0.0, 1.0));
}

void add_profile(CLI::App* command, VolumeProfile& profile) {
  const std::pair<const char*, double*> numbers[] = {
      {"--first-touch-ms", &profile.latency_median_ms},
      {"--first-touch-sigma", &profile.latency_sigma},
      {"--tail-probability", &profile.tail_probability},
      {"--tail-ms", &profile.tail_mean_ms},
      {"--stall-probability", &profile.stall_probability},
      {"--stall-ms", &profile.stall_ms},
      {"--fetch-mib-s", &profile.fetch_bandwidth_mib_s},
      {"--background-mib-s", &profile.background_mib_s},
      {"--guest-iops", &profile.guest_iops},
      {"--guest-mib-s", &profile.guest_bandwidth_mib_s},
      {"--warm-ms", &profile.warm_latency_ms}};
  for (const auto& [name, target] : numbers)
    command->add_option(name, *target, "volume model, see volume_model.hpp")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str()
        ->group("Volumes");
  command->add_option("--fetch-slots", profile.fetch_slots, "volume model, see volume_model.hpp")
      ->group("Volumes");
}

void add_serve(CLI::App* command, Options& options) {
  command->add_option("--port", options.port, "port on 127.0.0.1, 0 for any")
      ->capture_default_str();
  command->add_option("--dir", options.directory, "files while it runs")->capture_default_str();
  command->add_option("--region", options.region, "")->capture_default_str();
  command->add_option("--zones", options.zones, "separated by commas")->delimiter(',');
  command->add_option("--access-key", options.access_key, "")->capture_default_str();
  command->add_option("--secret-key", options.secret_key, "")->capture_default_str();
  command->add_option("--catalog", options.catalog_file, "TOML or JSON; see server_options.hpp")
      ->check(CLI::ExistingFile);
  command->add_option("--kernel", options.kernel, "what machines boot")->capture_default_str();
  command->add_option("--manager-port", options.manager_port,
                      "guests reach this port of 127.0.0.1 at 169.254.0.4:8470, from their own "
                      "address where their subnet lies in 127.0.0.0/8");
  command->add_flag("--no-machines", options.no_machines,
                    "no disks and no guests, only the API; needs no root");
  command->add_option("--seed", options.seed, "of ids and randomness")->capture_default_str();
  command
      ->add_option("--throttle", options.throttle_scale,
                   "EC2's token buckets times this; 1 is EC2, 0 none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--page-cap", options.page_cap, "most items on a page")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_time(command, "--credential-life-ms", options.credential_life,
           "temporary credentials end after this (3600000)");
  add_times(command, options.times);
  add_profile(command, options.profile);
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app("A simulated EC2 region: real API, real volumes, real guests, no account");
  app.require_subcommand(1);
  app.set_version_flag("--version", WARMROOT_VERSION);
  Options options;
  std::string endpoint, instance, from;
  std::uint16_t port = 0;
  bool impaired = false;
  add_serve(app.add_subcommand("serve", "run the region until SIGTERM"), options);
  const auto client = [&](const std::string& name, const std::string& help, bool takes_instance) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("--endpoint-url", endpoint, "of the region")->envname("WARMROOT_SIM_URL");
    if (takes_instance) command->add_option("instance", instance, "i-...")->required();
    return command;
  };
  client("interrupt", "spot notice, then reclaim after the notice time", true);
  client("crash", "power cut at once", true)
      ->add_flag("--impaired", impaired, "EC2 keeps saying running, with failed status checks");
  client("power-off", "the guest powers itself off, as its user-data may", true);
  client("state", "instances and volumes as JSON", false);
  CLI::App* relaying = app.add_subcommand("relay", "join stdin and stdout to a loopback port");
  relaying->add_option("port", port)->required();
  relaying->add_option("--from", from, "loopback address that the connection comes from");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const auto words = app.remaining(true);
    const bool unknown = app.get_subcommands().empty() && !words.empty();
    std::fprintf(stderr, "warmroot-sim: %s; see warmroot-sim --help\n",
                 unknown ? ("unknown command " + words.front()).c_str() : error.what());
    return 2;
  }
  const std::string command = app.get_subcommands().front()->get_name();
  Ok done;
  if (command == "serve") done = serve(options);
  if (command == "relay") done = relay(port, from);
  if (command == "state") done = call_control(endpoint, "GET", "state");
  if (command == "interrupt")
    done = call_control(endpoint, "POST", "interrupt?instance=" + instance);
  if (command == "power-off")
    done = call_control(endpoint, "POST", "power_off?instance=" + instance);
  if (command == "crash")
    done = call_control(endpoint, "POST",
                        "crash?instance=" + instance + (impaired ? "&mode=impaired" : ""));
  if (done) return 0;
  std::fprintf(stderr, "warmroot-sim: %s\n", done.error().message().c_str());
  return 1;
}

}  // namespace warmroot::sim

int main(int argc, char** argv) {
  return warmroot::sim::run(argc, argv);
}
