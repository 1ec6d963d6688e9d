#include "bootstrap/warm/block_trace.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <utility>

namespace warmroot::warm {
namespace {

constexpr const char* kPlaces[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
/// For each CPU, in KiB: a session's few thousand reads at 100 bytes a line, many times over.
constexpr std::string_view kBufferKib = "512";
constexpr const char* kReads = "block/block_bio_queue";
constexpr const char* kAllocations[] = {"ext4/ext4_allocate_inode", "ext4/ext4_allocate_blocks"};
/// The process's number follows, and that of the trace in it.
constexpr std::string_view kNamePrefix = "warmroot-";

UniqueFd open_in(int directory, const std::string& path, int flags) {
  return UniqueFd(::openat(directory, path.c_str(), flags | O_CLOEXEC));
}

/// tracefs without mounting it anywhere (Linux 5.2).
UniqueFd detached_tracefs() {
  const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, "tracefs", FSOPEN_CLOEXEC)));
  if (!context ||
      ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
    return UniqueFd();
  return UniqueFd(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
}

}  // namespace

UniqueFd BlockTrace::open_place() {
  for (const char* place : kPlaces) {
    const UniqueFd tracefs(::open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (auto found = open_in(tracefs.get(), "instances", O_RDONLY | O_DIRECTORY)) return found;
  }
  const UniqueFd tracefs = detached_tracefs();
  return tracefs ? open_in(tracefs.get(), "instances", O_RDONLY | O_DIRECTORY) : UniqueFd();
}

namespace {

/// A program that was killed leaves its instance tracing for nobody.
void remove_leftovers(int instances) {
  const int again = ::openat(instances, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* directory = again >= 0 ? ::fdopendir(again) : nullptr;
  if (directory == nullptr) return;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    pid_t owner = 0;
    if (!name.starts_with(kNamePrefix)) continue;
    const auto digits = name.substr(kNamePrefix.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), owner);
    const bool number =
        error == std::errc{} && (end == digits.data() + digits.size() || *end == '-');
    if (number && owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH)
      ::unlinkat(instances, entry->d_name, AT_REMOVEDIR);
  }
  ::closedir(directory);
}

Ok write_in(int directory, const std::string& path, std::string_view text) {
  const UniqueFd file = open_in(directory, path, O_WRONLY | O_TRUNC);
  if (!file || ::write(file.get(), text.data(), text.size()) < 0)
    return fail_errno("tracing block reads: " + path);
  return {};
}

/// The disk's number and those of its partitions: a bio keeps the one through which it came.
std::vector<dev_t> with_partitions(dev_t disk) {
  std::vector<dev_t> numbers{disk};
  const std::string base =
      "/sys/dev/block/" + std::to_string(major(disk)) + ":" + std::to_string(minor(disk));
  DIR* directory = ::opendir(base.c_str());
  if (directory == nullptr) return numbers;
  while (const dirent* entry = ::readdir(directory)) {
    const UniqueFd file(
        ::open((base + "/" + entry->d_name + "/dev").c_str(), O_RDONLY | O_CLOEXEC));
    char text[32] = {};
    unsigned high = 0;
    unsigned low = 0;
    if (entry->d_name[0] != '.' && file && ::read(file.get(), text, sizeof text - 1) > 0 &&
        std::sscanf(text, "%u:%u", &high, &low) == 2)
      numbers.push_back(makedev(high, low));
  }
  ::closedir(directory);
  return numbers;
}

/// In the kernel's own encoding (MKDEV), which the events' fields have.
std::string is_of(dev_t number) {
  return "dev == " + std::to_string((std::uint64_t{major(number)} << 20) | minor(number));
}

std::string filter_for(dev_t disk, pid_t except) {
  std::string filter;
  for (const dev_t number : with_partitions(disk))
    filter += (filter.empty() ? "" : " || ") + is_of(number);
  // Since Linux 5.13 that thread reads all block bitmaps, seconds after each mount: nobody waits.
  filter = "(" + filter + ") && comm != \"ext4lazyinit\"";
  if (except != 0) filter += " && common_pid != " + std::to_string(except);
  return filter;
}

}  // namespace

Result<BlockTrace> BlockTrace::start(dev_t disk, UniqueFd place, pid_t except) {
  TRY_ASSIGN(auto trace, make(std::move(place)));
  TRY(trace.follow_reads(disk, except));
  return trace;
}

Ok BlockTrace::follow_reads(dev_t disk, pid_t except) {
  return follow(kReads, filter_for(disk, except));
}

Result<BlockTrace> BlockTrace::make(UniqueFd place) {
  BlockTrace trace;
  trace.instances_ = std::move(place);
  if (!trace.instances_)
    return fail(ErrorKind::refused, "this kernel has no tracefs, or does not let us use it");
  static std::atomic<unsigned> traces{0};
  const std::string name =
      std::string(kNamePrefix) + std::to_string(::getpid()) + "-" + std::to_string(traces++);
  const int instances = trace.instances_.get();
  remove_leftovers(instances);
  if (::mkdirat(instances, name.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("tracing block reads: a new instance");
  trace.name_ = name;
  // A new instance has the options that somebody has set for all traces.
  for (const char* option : {"record-tgid", "latency-format", "raw", "hex", "bin"})
    (void)write_in(instances, name + "/options/" + option, "0");
  (void)write_in(instances, name + "/options/context-info", "1");
  TRY(write_in(instances, name + "/buffer_size_kb", kBufferKib));
  trace.pipe_ = open_in(instances, name + "/trace_pipe", O_RDONLY | O_NONBLOCK);
  if (!trace.pipe_) return fail_errno("tracing block reads: trace_pipe");
  return trace;
}

Ok BlockTrace::follow(const std::string& event, const std::string& filter) {
  const std::string place = name_ + "/events/" + event;
  TRY(write_in(instances_.get(), place + "/filter", filter));
  return write_in(instances_.get(), place + "/enable", "1");
}

Ok BlockTrace::follow_allocations(dev_t file_system) {
  // What workers allocate when dirty pages are written nobody waits for, and it is the most.
  const std::string filter = is_of(file_system) + " && !(comm ~ \"kworker/*\")";
  for (const char* event : kAllocations) TRY(follow(event, filter));
  return {};
}

BlockTrace::~BlockTrace() {
  if (!instances_ || name_.empty()) return;
  for (const char* event : {kReads, kAllocations[0], kAllocations[1]})
    (void)write_in(instances_.get(), name_ + "/events/" + event + "/enable", "0");
  pipe_.reset();  // an open pipe keeps the instance
  (void)::unlinkat(instances_.get(), name_.c_str(), AT_REMOVEDIR);
}

Ok append_what_is_there(int descriptor, std::size_t most, std::string& text) {
  char part[64 * 1024];
  while (most > 0) {
    const ssize_t count = ::read(descriptor, part, std::min(most, sizeof part));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return fail_errno("reading the trace");
    if (count <= 0) break;
    text.append(part, static_cast<std::size_t>(count));
    most -= static_cast<std::size_t>(count);
  }
  return {};
}

Result<std::vector<TracedEvent>> BlockTrace::take() {
  TRY(append_what_is_there(pipe_.get(), kTakenAtOnce, text_));
  return parse_trace(text_);
}

}  // namespace warmroot::warm
