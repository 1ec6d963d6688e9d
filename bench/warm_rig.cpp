#include "bench/warm_rig.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "bench/warm_loop.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/partition.hpp"
#include "bootstrap/warm/recorder.hpp"
#include "tests/sim/ebs_disk.hpp"

namespace warmroot::bench {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kPoll = milliseconds(10);
constexpr auto kRecorderPoll = milliseconds(200);
constexpr auto kSessionLimit = std::chrono::minutes(10);
constexpr std::uint64_t kTouchBytes = 4096;
/// MBR, GPT and its entries.
constexpr std::size_t kTableBytes = 20 * kKiB;
/// Openers of the volume's file, in the order in which a run opens it.
constexpr unsigned kRootOpener = 1, kContenderOpener = 2, kSearchOpener = 3, kReaderOpener = 4;

Ok write_lines(const fs::path& file, const std::vector<std::uint64_t>& values) {
  std::ofstream out(file);
  for (const std::uint64_t value : values) out << value << '\n';
  if (!out.flush()) return fail(ErrorKind::broken, "writing " + file.string());
  return {};
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Reads a page of each block at queue depth 1 until told to end.
void read_slowly(const std::string& file, const std::vector<std::uint64_t>& offsets,
                 const std::atomic<bool>& end) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  const std::unique_ptr<void, decltype(&std::free)> page(
      std::aligned_alloc(kTouchBytes, kTouchBytes), &std::free);
  for (const std::uint64_t offset : offsets)
    if (end || ::pread(fd.get(), page.get(), kTouchBytes, static_cast<off_t>(offset)) < 0) return;
}

/// "mounted" options: nothing that writes by itself while a run is measured.
std::string mount_options(const std::string& file_system) {
  return file_system == "ext4" ? "noinit_itable" : "";
}

}  // namespace

/// One run's devices and processes, undone in the order that leaves no task hanging: processes,
/// mounts, loops.
class Rig::Session {
 public:
  Session(Rig& rig, const RunSpec& spec)
      : rig_(rig), spec_(spec), id_("vol-" + std::to_string(++rig.runs_)) {}
  ~Session();
  Result<RunResult> run();

 private:
  Ok attach();
  Ok start_contender();
  Ok find_root();
  Ok mount();
  Ok mount_plainly();
  Ok start_session();
  Ok wait_for_session();
  Ok wait_for_contender();
  Ok start_recording();
  void poll_recorder();
  bool all_present() const;
  void change_when_due();
  fs::path root() const { return rig_.directory_ / "root"; }
  fs::path own(const std::string& name) const { return rig_.directory_ / name; }

  Rig& rig_;
  const RunSpec& spec_;
  const std::string id_;
  RunResult result_;
  // In this order: what comes later is undone first.
  std::optional<LoopDevice> fs_loop_, disk_loop_, search_loop_;
  std::vector<Mount> mounts_;
  std::optional<warm::Recorder> recorder_;
  SteadyClock::time_point last_poll_{};
  bool changed_ = false;
  std::atomic<bool> reader_end_ = false;
  std::jthread reader_;
  std::optional<Process> contender_, session_;
};

Rig::Session::~Session() {
  reader_end_ = true;
  if (reader_.joinable()) reader_.join();
  session_.reset();
  contender_.reset();
  // Nobody measures any more: what is written back need not pay.
  rig_.ebs_.mark_all_present(id_);
  while (!mounts_.empty()) mounts_.pop_back();
  search_loop_.reset();
  disk_loop_.reset();
  fs_loop_.reset();
  rig_.ebs_.delete_volume(id_);
}

Ok Rig::Session::attach() {
  TRY(rig_.ebs_.create_volume(
      id_, rig_.image_.file, rig_.image_.size_bytes,
      {.profile = spec_.profile, .seed = spec_.seed, .log_requests = true}));
  if (spec_.contender.volume_is_warm) rig_.ebs_.mark_all_present(id_);
  result_.log.all_present = spec_.contender.volume_is_warm;
  const fs::path file = rig_.ebs_.path(id_);
  TRY_ASSIGN(fs_loop_,
             LoopDevice::attach(file, rig_.image_.partition_offset, rig_.image_.partition_bytes));
  TRY_ASSIGN(disk_loop_, LoopDevice::attach(file, 0, 0));
  TRY_ASSIGN(search_loop_, LoopDevice::attach(file, 0, 0));
  result_.log.session_opener = kRootOpener;
  result_.log.contender_opener = spec_.contender.method == Method::cat ? 0 : kContenderOpener;
  return {};
}

/// As the bootstrap does between "a disk is there" and the mount, for every contender: the table,
/// what each partition holds, how the root was left.
Ok Rig::Session::find_root() {
  const UniqueFd disk(::open(search_loop_->path().c_str(), O_RDONLY | O_CLOEXEC));
  if (!disk) return fail_errno("opening " + search_loop_->path());
  TRY_ASSIGN(const auto partitions, bootstrap::read_partitions(disk.get()));
  TRY_ASSIGN(const auto candidates, bootstrap::root_candidates(partitions));
  const bootstrap::PartitionFacts& root = candidates.front();
  if (root.offset_bytes != rig_.image_.partition_offset)
    return fail(ErrorKind::misconfigured,
                rig_.image_.file.string() + ": the root is not where it is said to be");
  if (root.content.starts_with("ext"))
    TRY(bootstrap::read_ext_state(disk.get(), root.offset_bytes));
  result_.log.found = rig_.ebs_.now();
  return {};
}

Ok Rig::Session::start_contender() {
  Places places{.self = "/proc/self/exe",
                .disk = disk_loop_->path(),
                .disk_bytes = rig_.image_.size_bytes,
                .root = root().string(),
                .file_system = rig_.image_.file_system,
                .partition_offset = rig_.image_.partition_offset,
                .partition_bytes = rig_.image_.partition_bytes,
                .blocks_file = own("blocks").string(),
                .list_file = spec_.list_file,
                .held_file = spec_.held_blocks.empty() ? "" : own("held").string(),
                .lineage = rig_.image_.file.stem().string(),
                .output = own("contender").string()};
  const auto command = command_of(spec_.contender, places);
  if (!command) return {};
  TRY_ASSIGN(auto started, Process::start(*command));
  contender_.emplace(std::move(started));
  return {};
}

Ok Rig::Session::start_recording() {
  struct stat disk {};
  if (::stat(fs_loop_->path().c_str(), &disk) != 0) return fail_errno(fs_loop_->path());
  TRY_ASSIGN(auto recorder, warm::Recorder::start({.mount_point = {},
                                                   .disk = disk.st_rdev,
                                                   .disk_offset = rig_.image_.partition_offset,
                                                   .device_bytes = rig_.image_.size_bytes,
                                                   .partition_offset = rig_.image_.partition_offset,
                                                   .lineage = rig_.image_.file.stem().string(),
                                                   .workload = {},
                                                   .disk_node = fs_loop_->path()},
                                                  [](pid_t) { return false; }));
  recorder_.emplace(std::move(recorder));
  return {};
}

void Rig::Session::poll_recorder() {
  if (!recorder_ || SteadyClock::now() - last_poll_ < kRecorderPoll) return;
  last_poll_ = SteadyClock::now();
  [[maybe_unused]] const Ok taken = recorder_->poll();
}

Ok Rig::Session::mount() {
  TRY_ASSIGN(auto mounted, Mount::make(fs_loop_->path(), root(), rig_.image_.file_system,
                                       mount_options(rig_.image_.file_system)));
  mounts_.push_back(std::move(mounted));
  result_.log.mounted = rig_.ebs_.now();
  if (recorder_) TRY(recorder_->watch_files(root().string(), rig_.image_.partition_offset));
  return {};
}

/// As a script does on an instance: the kernel has read the table when the disk came, and mount(8)
/// looks at the partition's superblocks, one after the other.
Ok Rig::Session::mount_plainly() {
  const UniqueFd disk(::open(search_loop_->path().c_str(), O_RDONLY | O_CLOEXEC));
  if (!disk) return fail_errno("opening " + search_loop_->path());
  char table[kTableBytes];
  if (::pread(disk.get(), table, sizeof table, 0) != sizeof table)
    return fail_errno("reading " + search_loop_->path());
  result_.log.found = rig_.ebs_.now();
  const std::string options = mount_options(rig_.image_.file_system);
  TRY_ASSIGN(auto mounting,
             Process::start({.words = {"/usr/bin/mount", "-o", options.empty() ? "rw" : options,
                                       fs_loop_->path(), root().string()},
                             .root = {},
                             .output = own("mount").string()}));
  auto usage = mounting.poll();
  for (; !usage; usage = mounting.poll()) std::this_thread::sleep_for(milliseconds(1));
  if (usage->status != 0) return fail(ErrorKind::broken, "mount(8): " + text_of(own("mount")));
  mounts_.push_back(Mount::taken_over(root()));
  result_.log.mounted = rig_.ebs_.now();
  return {};
}

Ok Rig::Session::start_session() {
  if (spec_.session.empty()) return {};
  for (const char* tree : {"/dev", "/proc"}) {
    TRY_ASSIGN(auto bound, Mount::bind(tree, root() / (tree + 1)));
    mounts_.push_back(std::move(bound));
  }
  TRY_ASSIGN(auto started, Process::start({.words = {"/bin/bash", "-l", "-c", spec_.session},
                                           .root = root().string(),
                                           .output = own("session").string()}));
  session_.emplace(std::move(started));
  return {};
}

Ok Rig::Session::wait_for_session() {
  const auto until = SteadyClock::now() + kSessionLimit;
  while (session_) {
    if (contender_) contender_->poll();
    poll_recorder();
    change_when_due();
    if (const auto usage = session_->poll()) {
      result_.log.session_end = rig_.ebs_.now();
      if (usage->status != 0)
        return fail(ErrorKind::broken, "the session failed with status " +
                                           std::to_string(usage->status) + ": " +
                                           text_of(own("session")));
      return {};
    }
    TRY(rig_.stopped());
    if (SteadyClock::now() > until)
      return fail(ErrorKind::broken, "the session takes more than ten minutes");
    std::this_thread::sleep_for(std::min<milliseconds>(kPoll, milliseconds(2)));
  }
  result_.log.session_end = rig_.ebs_.now();
  return {};
}

/// The contender hears nothing of it.
void Rig::Session::change_when_due() {
  if (!spec_.change_to || changed_ || rig_.ebs_.now() - result_.log.start < spec_.change_after)
    return;
  changed_ = true;
  rig_.ebs_.set_profile(id_, *spec_.change_to);
}

bool Rig::Session::all_present() const {
  const sim::EbsCounters counters = rig_.ebs_.counters(id_);
  return counters.present_blocks == counters.total_blocks;
}

Ok Rig::Session::wait_for_contender() {
  while (contender_) {
    if (contender_->poll()) {
      result_.contender_ended = true;
      break;
    }
    TRY(rig_.stopped());
    change_when_due();
    // Who reads on over a volume that is warm already has nothing more to show.
    if (spec_.contender.method != Method::ours && all_present()) break;
    if (rig_.ebs_.now() - result_.log.start > spec_.limit) break;
    std::this_thread::sleep_for(kPoll);
  }
  while (!contender_ && reader_.joinable() && !spec_.reader_blocks.empty()) {
    TRY(rig_.stopped());
    if (rig_.ebs_.now() - result_.log.start > spec_.limit) break;
    std::this_thread::sleep_for(kPoll);
  }
  return {};
}

Result<RunResult> Rig::Session::run() {
  if (!spec_.blocks.empty()) {
    std::vector<std::uint64_t> offsets;
    const std::uint64_t unit = spec_.profile.hydration_unit_kib * kKiB;
    for (const std::uint64_t block : spec_.blocks) offsets.push_back(block * unit);
    TRY(write_lines(own("blocks"), offsets));
  } else if (spec_.contender.method == Method::touch) {
    TRY(write_lines(own("blocks"), touch_offsets(rig_.image_)));
  }
  if (!spec_.held_blocks.empty()) TRY(write_lines(own("held"), spec_.held_blocks));
  TRY(attach());
  if (spec_.record) TRY(start_recording());
  if (!spec_.reader_blocks.empty()) {
    std::vector<std::uint64_t> offsets;
    for (const std::uint64_t block : spec_.reader_blocks)
      offsets.push_back(block * spec_.profile.hydration_unit_kib * kKiB);
    reader_ = std::jthread([this, file = rig_.ebs_.path(id_).string(), offsets] {
      read_slowly(file, offsets, reader_end_);
    });
  }
  result_.log.start = rig_.ebs_.now();
  if (!starts_after_mount(spec_.contender)) TRY(start_contender());
  if (spec_.contender.plain_mount) {
    TRY(mount_plainly());
  } else {
    TRY(find_root());
    TRY(mount());
  }
  if (starts_after_mount(spec_.contender)) TRY(start_contender());
  if (contender_ && spec_.contender.method == Method::ours) contender_->notify();
  TRY(start_session());
  TRY(wait_for_session());
  TRY(wait_for_contender());
  result_.log.end = rig_.ebs_.now();
  reader_end_ = true;
  result_.log.requests = rig_.ebs_.request_log(id_);
  for (sim::DeviceRequest& request : result_.log.requests)
    if (request.opener == kSearchOpener) request.opener = kRootOpener;
  result_.log.touches = rig_.ebs_.touch_log(id_);
  result_.reader_cold_ms = cold_latencies_ms(result_.log.requests, kReaderOpener);
  if (contender_) {
    if (result_.log.contender_opener != 0) {
      TRY_ASSIGN(result_.page_cache_bytes, disk_loop_->cached_bytes());
    }
    result_.contender = contender_->stop();
    result_.contender_output = text_of(own("contender"));
    const int status = result_.contender->status;
    if (result_.contender_ended && status != 0)
      return fail(ErrorKind::broken, spec_.contender.name + " failed with status " +
                                         std::to_string(status) + ": " + result_.contender_output);
  }
  if (recorder_) {
    TRY(recorder_->poll());
    result_.recorded = recorder_->list();
    recorder_.reset();
  }
  return std::move(result_);
}

Rig::Rig(fs::path directory, Image image, const std::atomic<bool>& stop)
    : directory_(std::move(directory)),
      image_(std::move(image)),
      stop_(stop),
      ebs_({.mount_dir = directory_ / "volumes", .backing_dir = directory_ / "backing"}) {}

Result<std::unique_ptr<Rig>> Rig::start(const fs::path& directory, const Image& image,
                                        const std::atomic<bool>& stop) {
  if (::access("/dev/loop-control", F_OK) != 0) return fail_errno("/dev/loop-control");
  std::error_code error;
  fs::create_directories(directory / "root", error);
  if (error) return fail(errno_error("making " + directory.string(), error.value()));
  std::unique_ptr<Rig> rig(new Rig(directory, image, stop));
  TRY(rig->ebs_.start());
  return rig;
}

Rig::~Rig() {
  ebs_.stop();
  std::error_code error;
  fs::remove_all(directory_, error);
}

Result<RunResult> Rig::run(const RunSpec& spec) {
  return Session(*this, spec).run();
}

Ok Rig::read_image() const {
  TRY_ASSIGN(const auto disk,
             sim::EbsDisk::open(image_.file, directory_ / "backing", image_.size_bytes));
  TRY_ASSIGN(const auto data, disk->snapshot_data());
  std::vector<char> piece(kMiB);
  for (const sim::ByteRange& range : data)
    for (std::uint64_t at = 0; at < range.length; at += piece.size()) {
      TRY(disk->read(range.offset + at, std::span(piece).first(std::min<std::uint64_t>(
                                            piece.size(), range.length - at))));
      TRY(stopped());
    }
  return {};
}

Ok Rig::stopped() const {
  if (stop_) return fail(ErrorKind::refused, "stopped");
  return {};
}

Result<std::vector<sim::SelfCheckPoint>> Rig::self_check(sim::VolumeProfile profile,
                                                         std::uint64_t seed, double tolerance) {
  profile.tail_probability = profile.stall_probability = 0;
  constexpr int kTries = 3;
  constexpr std::uint64_t kBlocksPerDepth = 48;
  TRY_ASSIGN(const VolumeFacts volume, facts_of(image_, profile));
  std::vector<std::uint64_t> all;
  for (std::uint64_t block = 0; block < volume.costly.size(); ++block)
    if (volume.costly[block]) all.push_back(block * volume.unit_bytes);
  std::ranges::shuffle(all, std::mt19937_64(seed));  // nobody profits from neighbours
  std::vector<sim::SelfCheckPoint> points;
  for (const unsigned depth : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U}) {
    const std::span offsets = std::span(all).first(
        std::min<std::size_t>({kBlocksPerDepth * depth, std::size_t{1536}, all.size()}));
    sim::VolumeModel model(profile, seed, volume.size_bytes, volume.data, {});
    const auto blocks = static_cast<double>(offsets.size());
    const auto replay = sim::replay_closed_loop(model, offsets, kTouchBytes, depth);
    sim::SelfCheckPoint point{
        .depth = depth,
        .formula_blocks_s = sim::theoretical_blocks_per_second(profile, depth),
        .replay_blocks_s = blocks / std::chrono::duration<double>(replay).count()};
    for (int i = 0; i < kTries; ++i) {
      TRY(stopped());
      const std::string id = "check-" + std::to_string(depth);
      TRY(ebs_.create_volume(id, image_.file, image_.size_bytes,
                             {.profile = profile, .seed = seed}));
      const auto probe = sim::probe_closed_loop(ebs_.path(id), offsets, kTouchBytes, depth);
      ebs_.delete_volume(id);
      if (!probe) return fail(probe.error());
      point.measured_blocks_s = blocks / std::chrono::duration<double>(probe->elapsed).count();
      if (std::abs(point.deviation()) <= tolerance) break;
    }
    points.push_back(point);
  }
  return points;
}

}  // namespace warmroot::bench
