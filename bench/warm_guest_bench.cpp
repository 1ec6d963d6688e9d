// warm_guest_bench: the warmer on a second stack. A guest's own kernel and NVMe driver, QEMU's NVMe
// disk and NBD client, and the modelled volume behind a socket: nothing of FUSE, loop devices or
// this machine's block layer. Metrics and bounds are warm_bench's, from the volume's own log. The
// guest's processor may be emulated, so that sessions' times are not compared. Called by
// `bench/run.sh warm-guest`, which makes the disks; needs root and QEMU.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "bench/run_facts.hpp"
#include "bench/warm_contenders.hpp"
#include "bench/warm_image.hpp"
#include "bench/warm_profile.hpp"
#include "bench/warm_report.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "tests/sim/ebs_nbd.hpp"
#include "tests/sim/machine.hpp"

namespace warmroot::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

/// Seeds of a run's repetitions: seed * this + repetition, as warm_bench has them.
constexpr std::uint64_t kSeedStride = 1000;
constexpr seconds kBootLimit{180};
/// For a guest that says no more: its own limits of a run come before.
constexpr seconds kBeyondLimit{300};
constexpr std::uint64_t kTouchBytes = 4096;
constexpr const char* kRootVolume = "vol-root";
constexpr const char* kDiskVolume = "vol-disk";
/// Connections of the volume, in the order in which a run plugs its disks.
constexpr unsigned kRootOpener = 1, kDiskOpener = 2;
constexpr const char *kGuestList = "/bench/list", *kGuestBlocks = "/bench/blocks";

std::atomic<bool> stop_asked = false;

struct Options {
  std::string profile = "bench/profiles/c16.toml";
  std::string images = "build/bench";
  std::string guest_images = "build/images";
  std::string contenders = "none,touch,ours-nolist,ours";
  std::string session = "bench/workloads/guest.sh";
  std::uint64_t seed = 1;
  unsigned repetitions = 3;
  unsigned limit_s = 60;
  std::string json;
  std::string logs;
};

/// ssh to the guest: its command's output by lines, and its input. Ends the client with the object.
class Remote {
 public:
  Remote(const std::vector<std::string>& ssh, const std::string& command) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    ours_.reset(ends[0]);
    const UniqueFd theirs(ends[1]);
    std::vector<std::string> words = ssh;
    words.push_back(command);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(theirs.get(), 0);
    ::dup2(theirs.get(), 1);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;
  ~Remote() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void send(const std::string& text) const {
    [[maybe_unused]] const auto sent = ::send(ours_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  void end_input() const { ::shutdown(ours_.get(), SHUT_WR); }
  /// The next line; nothing at its end, at `until`, or when the bench is asked to stop.
  std::optional<std::string> line(SteadyClock::time_point until) {
    while (buffer_.find('\n') == std::string::npos) {
      if (stop_asked || SteadyClock::now() > until) return {};
      const timeval wait{0, 200'000};
      ::setsockopt(ours_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
      char piece[4096];
      const ssize_t got = ::recv(ours_.get(), piece, sizeof piece, 0);
      if (got == 0) return {};
      if (got > 0) buffer_.append(piece, static_cast<std::size_t>(got));
    }
    const auto end = buffer_.find('\n');
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }

 private:
  UniqueFd ours_;
  pid_t pid_ = -1;
  std::string buffer_;
};

struct GuestRun {
  RunLog log;
  bool ended = false;             ///< the contender, by itself
  std::vector<std::string> said;  ///< its lines
};

class GuestBench {
 public:
  explicit GuestBench(Options options) : options_(std::move(options)) {}
  ~GuestBench() {
    machine_.reset();
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  Ok run();

 private:
  Ok prepare();
  Ok boot();
  Ok put(const std::string& guest_file, const std::string& text);
  Ok train();
  Ok repetition(unsigned number);
  Result<GuestRun> measured(const Contender& contender, std::uint64_t seed);
  Result<GuestRun> on_volume(const Contender& contender, sim::EbsVolume& volume,
                             SteadyClock::time_point epoch);
  std::string command_line(const Contender& contender) const;
  void print() const;
  Ok write_json() const;
  void tell(const std::string& text) const {
    const auto since = std::chrono::duration_cast<seconds>(SteadyClock::now() - started_);
    std::fprintf(stderr, "[%4lld s] %s\n", static_cast<long long>(since.count()), text.c_str());
  }

  const Options options_;
  const SteadyClock::time_point started_ = SteadyClock::now();
  const std::string revision_ = first_line_of("git describe --always --dirty 2>/dev/null");
  const double load_at_start_ = load_average();
  fs::path directory_;
  sim::VolumeProfile profile_;
  std::vector<Contender> contenders_;
  Image image_;
  VolumeFacts volume_;
  std::string accelerator_;
  std::unique_ptr<sim::Machine> machine_;
  std::vector<std::string> ssh_;
  std::vector<std::uint64_t> hot_;  // the session's blocks, where nothing is absent
  std::vector<Row> rows_;
};

Ok GuestBench::prepare() {
  TRY_ASSIGN(const std::string text, read_text(options_.profile));
  auto profile = parse_profile(text);
  if (!profile) return fail(std::move(profile).error().within(options_.profile));
  profile_ = *profile;
  // What QEMU keeps in flight is this stack's, whoever reads: the bounds know it.
  profile_.fetch_slots =
      profile_.fetch_slots == 0 ? sim::kNbdDepth : std::min(profile_.fetch_slots, sim::kNbdDepth);
  TRY_ASSIGN(contenders_, parse_contenders(options_.contenders));
  for (const Contender& each : contenders_)
    if (each.plain_mount || each.volume_is_warm || each.method == Method::cat ||
        each.method == Method::fio || each.list == ListFrom::other_workload ||
        each.list == ListFrom::older_image || each.has_block_list)
      return fail(ErrorKind::misconfigured, each.name + " is not for the guest");
  TRY_ASSIGN(image_, image_called(options_.images, "ext4"));
  TRY_ASSIGN(volume_, facts_of(image_, profile_));
  std::string pattern = (fs::temp_directory_path() / "warm-guest-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return fail_errno("making " + pattern);
  directory_ = pattern;
  return {};
}

Ok GuestBench::boot() {
  const std::string kernel = options_.guest_images + "/vmlinuz";
  accelerator_ = sim::find_accelerator(kernel);
  sim::MachineOptions options{.directory = directory_.string(),
                              .kernel = kernel,
                              .relay_program = "/bin/false",
                              .accelerator = accelerator_};
  TRY_ASSIGN(
      machine_,
      sim::Machine::start(
          options,
          {.instance_id = "i-bench", .image_id = {}, .imds_port = 0, .root_volume_id = "vol-base"},
          options_.images + "/guest.qcow2"));
  ssh_ = {"ssh", "-i", options_.guest_images + "/id_ed25519", "-p",
          std::to_string(machine_->ssh_port())};
  for (const char* option : {"StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null",
                             "LogLevel=ERROR", "BatchMode=yes", "ConnectTimeout=10"})
    ssh_.insert(ssh_.end(), {"-o", option});
  ssh_.push_back("root@127.0.0.1");
  const auto until = SteadyClock::now() + kBootLimit;
  for (auto state = machine_->state(); SteadyClock::now() < until && !stop_asked;
       state = machine_->state()) {
    if (state == sim::MachineState::off) return fail(ErrorKind::broken, "QEMU has ended");
    if (state == sim::MachineState::up && Remote(ssh_, "echo up").line(until) == "up") return {};
    std::this_thread::sleep_for(milliseconds(500));
  }
  return fail(ErrorKind::broken, "the guest did not let us in; see " + machine_->console_log());
}

Ok GuestBench::put(const std::string& guest_file, const std::string& text) {
  Remote remote(ssh_, "cat >" + guest_file + " && wc -c <" + guest_file);
  std::thread sender([&] {
    remote.send(text);
    remote.end_input();
  });
  const auto size = remote.line(SteadyClock::now() + kBootLimit);
  sender.join();
  if (size != std::to_string(text.size()))
    return fail(ErrorKind::broken, "copying " + guest_file + " into the guest");
  return {};
}

std::string GuestBench::command_line(const Contender& contender) const {
  const Places places{.self = "/bench/warm_bench",
                      .disk = "/bench/disk",
                      .disk_bytes = image_.size_bytes,
                      .root = "/bench/root",
                      .file_system = image_.file_system,
                      .partition_offset = image_.partition_offset,
                      .partition_bytes = image_.partition_bytes,
                      .blocks_file = kGuestBlocks,
                      .list_file = contender.list == ListFrom::this_workload ? kGuestList : "",
                      .lineage = image_.file.stem().string()};
  std::ostringstream line;
  line << "python3 /bench/run.py " << options_.limit_s << ' ' << image_.partition_offset << ' '
       << image_.file_system;
  if (const auto command = command_of(contender, places))
    for (const std::string& word : command->words) line << " '" << word << '\'';
  return line.str();
}

/// With both disks plugged: the guest says what has happened, the clock is the volume's.
Result<GuestRun> GuestBench::on_volume(const Contender& contender, sim::EbsVolume& volume,
                                       SteadyClock::time_point epoch) {
  GuestRun run;
  run.log.session_opener = kRootOpener;
  run.log.contender_opener = kDiskOpener;
  const auto until = SteadyClock::now() + seconds(options_.limit_s) + kBeyondLimit;
  Remote guest(ssh_, command_line(contender));
  std::string heard;
  while (const auto line = guest.line(until)) {
    const SimTime now = SteadyClock::now() - epoch;
    if (!line->starts_with("said ")) heard = *line;
    if (*line == "there") {
      run.log.start = run.log.found = SteadyClock::now() - epoch;
      guest.send("\n");
    } else if (*line == "mounted") {
      run.log.mounted = now;
    } else if (*line == "session") {
      run.log.session_end = now;
    } else if (*line == "limit" || line->starts_with("ended ")) {
      run.log.end = now;
      run.ended = *line == "ended 0";
    } else if (line->starts_with("said ")) {
      run.said.push_back(line->substr(5));
    } else if (*line == "over") {
      run.log.requests = volume.request_log();
      run.log.touches = volume.touch_log();
      return run;
    }
  }
  return fail(
      ErrorKind::broken,
      stop_asked ? "stopped" : contender.name + ": the guest said no more after \"" + heard + "\"");
}

Result<GuestRun> GuestBench::measured(const Contender& contender, std::uint64_t seed) {
  TRY_ASSIGN(auto disk, sim::EbsDisk::open(image_.file, directory_, image_.size_bytes));
  const auto epoch = SteadyClock::now();
  const auto volume = std::make_shared<sim::EbsVolume>("vol-bench", 2, std::move(disk),
                                                       volume_.data, profile_, seed, epoch);
  volume->log_requests();
  if (contender.method == Method::local) volume->mark_all_present();
  const std::string socket = directory_ / "volume";
  TRY_ASSIGN(const auto server, sim::EbsNbd::start(socket, volume));
  TRY(machine_->plug(kRootVolume, socket));
  TRY(machine_->plug(kDiskVolume, socket));
  auto run = on_volume(contender, *volume, epoch);
  // Nobody measures any more: what is written back need not pay.
  volume->mark_all_present();
  TRY(machine_->unplug(kDiskVolume));
  TRY(machine_->unplug(kRootVolume));
  if (run) run->log.all_present = contender.method == Method::local;
  return run;
}

/// The session's blocks in order of first use, from a volume where nothing is absent, are its list.
Ok GuestBench::train() {
  TRY_ASSIGN(const std::string script, read_text(options_.session));
  TRY(put("/bench/session", script));
  std::ostringstream offsets;
  for (const std::uint64_t at : touch_offsets(image_)) offsets << at << '\n';
  TRY(put(kGuestBlocks, offsets.str()));
  TRY_ASSIGN(const auto local, parse_contenders("local"));
  TRY_ASSIGN(const GuestRun run, measured(local.front(), options_.seed * kSeedStride));
  hot_ = session_blocks(run.log, volume_);
  warm::HotList list;
  list.lineage = image_.file.stem();
  list.device_bytes = image_.size_bytes;
  for (const std::uint64_t block : hot_)
    list.ranges.push_back({.device = {block * volume_.unit_bytes, kTouchBytes}, .path = {}});
  tell("the session reads " + std::to_string(hot_.size()) + " blocks");
  return put(kGuestList, warm::encode_hot_list(list));
}

Ok GuestBench::repetition(unsigned number) {
  const std::uint64_t seed = options_.seed * kSeedStride + number;
  std::vector<Contender> order = contenders_;
  std::ranges::shuffle(order, std::mt19937_64(seed));
  const auto needed = needed_list(volume_);
  const Bounds bounds{.needed_s = fetch_bound_s(needed, volume_, profile_, seed),
                      .needed_untailed_s = untailed_bound_s(needed, volume_, profile_, seed),
                      .hot_s = fetch_bound_s(hot_, volume_, profile_, seed),
                      .depth = pipe_depth(profile_),
                      .tail_s = expected_tail_s(profile_)};
  const SimTime warm(static_cast<SimTime::rep>(profile_.warm_latency_ms * 1e6));
  for (const Contender& contender : order) {
    TRY_ASSIGN(const GuestRun run, measured(contender, seed));
    Row row{.repetition = number,
            .seed = seed,
            .workload = fs::path(options_.session).stem(),
            .contender = contender.name,
            .metrics = measure(run.log, volume_, hot_, warm),
            .bounds = bounds};
    row.contender_ended = run.ended;
    if (contender.method == Method::ours) {
      row.warmer = run.said.empty() ? "" : run.said.back();
      if (!run.ended) tell(contender.name + " did not end by itself: " + row.warmer);
    }
    if (!options_.logs.empty()) {
      std::ofstream out(fs::path(options_.logs) /
                        (std::to_string(number) + "-" + contender.name + ".txt"));
      for (const std::string& line : run.said) out << line << '\n';
    }
    const auto all = row.metrics.needed_100_s;
    tell(std::to_string(number) + " " + contender.name + ": all needed after " +
         (all ? std::to_string(*all) + " s" : std::string("the limit")) + ", bound " +
         std::to_string(bounds.needed_s) + " s");
    rows_.push_back(std::move(row));
  }
  return {};
}

void GuestBench::print() const {
  std::printf(
      "| contender | reads | MiB read | 50 %% s | 90 %% s | 99 %% s | 100 %% s | bound s | 100 %% "
      "/ "
      "bound | session's cold reads | wait p99 ms |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Contender& contender : contenders_) {
    std::vector<const Row*> rows;
    for (const Row& row : rows_)
      if (row.contender == contender.name) rows.push_back(&row);
    // The median of those that have it, with how many where not all do.
    const auto cell = [&](const char* form, auto value) {
      std::vector<double> values;
      for (const Row* row : rows)
        if (const std::optional<double> one = value(*row)) values.push_back(*one);
      if (values.empty()) return std::printf(" - |");
      std::printf(form, median(values));
      if (values.size() < rows.size()) std::printf(" (%zu of %zu)", values.size(), rows.size());
      return std::printf(" |");
    };
    const auto stalls = [](const Row& row) { return row.metrics.stalls.value_or(Stalls{}); };
    std::printf("| %s |", contender.name.c_str());
    cell(" %.0f", [](const Row& row) { return row.metrics.contender_requests; });
    cell(" %.0f", [](const Row& row) {
      return static_cast<double>(row.metrics.contender_bytes.value_or(0)) / kMiB;
    });
    cell(" %.2f", [](const Row& row) { return row.metrics.needed_50_s; });
    cell(" %.2f", [](const Row& row) { return row.metrics.needed_90_s; });
    cell(" %.2f", [](const Row& row) { return row.metrics.needed_99_s; });
    cell(" %.2f", [](const Row& row) { return row.metrics.needed_100_s; });
    cell(" %.2f", [](const Row& row) { return std::optional(row.bounds.needed_s); });
    cell(" %.2f", [](const Row& row) -> std::optional<double> {
      if (!row.metrics.needed_100_s) return {};
      return *row.metrics.needed_100_s / row.bounds.needed_s;
    });
    cell(" %.0f", [&](const Row& row) { return std::optional<double>(stalls(row).count); });
    cell(" %.0f", [&](const Row& row) { return std::optional(stalls(row).p99_ms); });
    std::printf("\n");
  }
}

Ok GuestBench::write_json() const {
  Json runs = Json::array();
  for (const Row& row : rows_) runs.push_back(to_json(row));
  const Json out = {{"rev", revision_},
                    {"machine", first_line_of("uname -rm")},
                    {"qemu", first_line_of("qemu-system-x86_64 --version")},
                    {"accelerator", accelerator_},
                    {"load_at_start", load_at_start_},
                    {"load_at_end", load_average()},
                    {"sessions_times", "the guest's processor's: not to be compared"},
                    {"profile", options_.profile},
                    {"profile_text", read_text(options_.profile).value_or("")},
                    {"fetch_slots", profile_.fetch_slots},
                    {"needed_blocks", std::ranges::count(volume_.needed, true)},
                    {"list_blocks", hot_.size()},
                    {"seed", options_.seed},
                    {"repetitions", options_.repetitions},
                    {"limit_s", options_.limit_s},
                    {"runs", runs}};
  std::ofstream file(options_.json);
  file << out.dump(1) << '\n';
  if (!file.flush()) return fail(ErrorKind::broken, "writing " + options_.json);
  return {};
}

Ok GuestBench::run() {
  TRY(prepare());
  TRY(boot());
  tell("the guest is up (" + accelerator_ + "); at most " + std::to_string(sim::kNbdDepth) +
       " reads in flight, as QEMU's NBD client has them");
  TRY(train());
  Ok done;
  for (unsigned number = 1; done && number <= options_.repetitions; ++number)
    done = repetition(number);
  // An interrupted run still says what it has.
  if (!rows_.empty()) {
    print();
    if (!options_.json.empty()) TRY(write_json());
  }
  return done;
}

}  // namespace
}  // namespace warmroot::bench

int main(int argc, char** argv) {
  using namespace warmroot;
  using namespace warmroot::bench;
  CLI::App app{"The warmer in a guest, on a modelled cold volume behind NBD."};
  Options options;
  app.add_option("--profile", options.profile, "Law of the volume (TOML)")->capture_default_str();
  app.add_option("--seed", options.seed, "Of latencies and order")->capture_default_str();
  app.add_option("--images", options.images, "Where the root disk and the guest's are")
      ->capture_default_str();
  app.add_option("--contenders", options.contenders, "Names with commas")->capture_default_str();
  app.add_option("--session", options.session, "Its script")->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "Each with a seed of its own")
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  app.add_option("--limit", options.limit_s, "Seconds that a contender gets")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--json", options.json, "Raw results to this file");
  app.add_option("--logs", options.logs, "What each contender said into this directory")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  for (const int end : {SIGINT, SIGTERM, SIGHUP}) ::signal(end, [](int) { stop_asked = true; });
  ::signal(SIGPIPE, SIG_IGN);
  const Ok done = GuestBench(std::move(options)).run();
  if (done) return 0;
  std::fprintf(stderr, "warm_guest_bench: %s\n", done.error().message().c_str());
  return 1;
}
