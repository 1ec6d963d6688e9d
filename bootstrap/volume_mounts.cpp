#include "bootstrap/volume_mounts.hpp"

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "bootstrap/in_root.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/mount_plan.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

MountFacts mount_facts(const std::string& sftp_server) {
  MountFacts facts;
  facts.base_has_run_user = ::access("/run/user", F_OK) == 0;
  facts.base_has_utmp = ::access("/run/utmp", F_OK) == 0;
  facts.base_has_resolv_conf = ::access(kResolvConf, F_OK) == 0;
  facts.sftp_server = sftp_server;
  if (const auto root = RootDirectory::open(kVolumePoint)) {
    facts.volume_has_tmp = root->is_directory("tmp");
    facts.volume_has_sftp_server = sftp_server.empty() || root->is_executable(sftp_server);
  }
  return facts;
}

}  // namespace

Ok mount_inside(const std::string& sftp_server, StatusBook& book) {
  std::int64_t started = book.now_ms();
  return perform_all(
      plan_mounts(mount_facts(sftp_server)), kVolumePoint,
      [&](const MountStep& step, const Ok& done) {
        TimedStep timed{step.name, started, book.now_ms() - started, Outcome::ok, {}};
        if (!done) {
          timed.outcome = step.required ? Outcome::failed : Outcome::skipped;
          timed.detail = done.error().message();
        }
        book.record(std::move(timed));
        started = book.now_ms();
      });
}

}  // namespace warmroot::bootstrap
