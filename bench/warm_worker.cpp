#include "bench/warm_worker.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "bootstrap/accounts.hpp"
#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/confine.hpp"
#include "bootstrap/warm/early_reads.hpp"
#include "bootstrap/warm/first_run_files.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "bootstrap/warm/warm_progress_json.hpp"
#include "bootstrap/warm/warmer.hpp"
#include "tests/sim/ebs_probe.hpp"

namespace warmroot::bench {
namespace {

constexpr unsigned kProbeBytes = 4096;
/// The bootstrap reads its disk while it asks the manager for the list: some round trips in a zone.
constexpr std::chrono::milliseconds kListTakes{5};
/// Where the bootstrap keeps it (bootstrap/paths.hpp).
constexpr const char* kMap = "var/lib/warmroot/warm.map";

Ok usage() {
  return fail(ErrorKind::misconfigured, "a worker of warm_bench got other words than it takes");
}

/// Blocks of a list of this lineage, names of another's; nothing of none.
Ok take_list(const std::string& list_file, const std::string& lineage, std::uint64_t device_bytes,
             warm::WarmRequest& request) {
  if (list_file.empty()) return {};
  std::ifstream in(list_file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  TRY_ASSIGN(const warm::HotList list, warm::decode_hot_list(text.str()));
  if (list.lineage == lineage)
    request.hot = warm::hot_blocks(list, warm::grid_blocks(device_bytes));
  else
    request.files = warm::hot_files(list);
  return {};
}

/// As containers' and hardened systems' filters do.
Ok refuse_rings() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(code), code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return fail_errno("refusing io_uring");
  return {};
}

/// As the manager hands the snapshot's block list on.
Ok take_held(const std::string& held_file, warm::WarmRequest& request) {
  if (held_file.empty()) return {};
  std::vector<warm::Block> held;
  std::ifstream in(held_file);
  for (warm::Block block = 0; in >> block;) held.push_back(block);
  if (held.empty()) return fail(ErrorKind::broken, "no blocks in " + held_file);
  request.listed = [held = std::move(held)](std::uint64_t device_bytes) {
    warm::BlockSet blocks(warm::grid_blocks(device_bytes));
    for (const warm::Block block : held) blocks.insert(block);
    return std::optional(std::move(blocks));
  };
  return {};
}

/// Who may log in on the volume, as the bootstrap finds them.
std::vector<warm::LoginUser> login_users(const std::string& root) {
  std::ifstream in(root + "/etc/passwd", std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  std::vector<warm::LoginUser> users;
  for (const bootstrap::User& user : bootstrap::parse_passwd(text.str()))
    if (bootstrap::is_login_shell(user.shell)) users.push_back({user.shell, user.home});
  return users;
}

}  // namespace

Ok run_warmer(std::span<const std::string> words) {
  if (words.size() != 9) return usage();
  if (words[8] == "pread") TRY(refuse_rings());
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  warm::WarmRequest request;
  request.device_path = words[0];
  request.mount_point = words[1];
  request.filesystem = words[2];
  request.partition_offset_bytes = std::stoull(words[3]);
  request.partition_size_bytes = std::stoull(words[4]);
  request.map_path = kMap;
  request.volume_id = "vol-bench";
  TRY_ASSIGN(const auto device, warm::BlockDevice::open(request.device_path));
  TRY(take_list(words[5], words[6], device.size_bytes(), request));
  TRY(take_held(words[7], request));
  warm::EarlyReads early;
  const auto confine = [] { [[maybe_unused]] const Ok done = warm::confine_thread(); };
  request.set_up = confine;
  early.start(request.device_path, 0, 0, confine);
  if (!request.hot.empty()) {
    std::this_thread::sleep_for(kListTakes);
    early.hot(request.hot);
  }
  int signal = 0;
  ::sigwait(&signals, &signal);
  if (signal != SIGUSR1) return {};
  std::stop_source stop;
  std::thread([signals, &stop] {
    int end = 0;
    ::sigwait(&signals, &end);
    stop.request_stop();
  }).detach();
  request.read_before = early.finish();
  request.under_way = early.under_way();
  request.depth = early.depth();
  request.read_whole = early.reads_whole();
  request.guess = {warm::first_run_files, [root = request.mount_point] {
                     return warm::first_run_files_of(login_users(root));
                   }};
  const auto show = [](const warm::WarmProgress& progress) {
    std::printf("%s\n", warm::to_json(progress).dump().c_str());
    std::fflush(stdout);
  };
  TRY_ASSIGN(const auto done, warm::Warmer(std::move(request)).run(stop.get_token(), show));
  if (done.state == warm::WarmState::failed) return fail(ErrorKind::broken, done.note);
  std::fflush(stdout);
  ::_exit(0);  // the thread that waits for SIGTERM is still there
}

Ok run_touch(std::span<const std::string> words) {
  if (words.size() != 3) return usage();
  std::vector<std::uint64_t> offsets;
  std::ifstream in(words[2]);
  for (std::uint64_t offset = 0; in >> offset;) offsets.push_back(offset);
  const auto read = sim::probe_closed_loop(words[0], offsets, kProbeBytes,
                                           static_cast<unsigned>(std::stoul(words[1])));
  return read ? Ok{} : Ok{fail(read.error())};
}

}  // namespace warmroot::bench
