#include "bench/warm_worker.hpp"

#include <signal.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "bootstrap/accounts.hpp"
#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/early_reads.hpp"
#include "bootstrap/warm/first_run_files.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "bootstrap/warm/warm_progress_json.hpp"
#include "bootstrap/warm/warmer.hpp"
#include "tests/sim/ebs_probe.hpp"

namespace warmroot::bench {
namespace {

constexpr unsigned kTouchBytes = 4096;
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
  if (words.size() != 7) return usage();
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
  warm::EarlyReads early;
  early.start(request.device_path);
  early.hot(request.hot);
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
  request.depth = early.depth();
  if (request.hot.empty()) {
    const auto guessed = warm::first_run_files(login_users(request.mount_point));
    request.files.insert(request.files.end(), guessed.begin(), guessed.end());
  }
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
  const auto read = sim::probe_closed_loop(words[0], offsets, kTouchBytes,
                                           static_cast<unsigned>(std::stoul(words[1])));
  return read ? Ok{} : Ok{fail(read.error())};
}

}  // namespace warmroot::bench
