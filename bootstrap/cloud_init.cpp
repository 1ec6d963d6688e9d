#include "bootstrap/cloud_init.hpp"

#include <poll.h>

#include <nlohmann/json.hpp>

#include "bootstrap/sshd_listeners.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr char kStatus[] = "/run/cloud-init/status.json";
constexpr std::size_t kMaxStatus = 256 * 1024;
/// The rest of its stage takes about a second, in an emulated guest up to some minutes.
constexpr std::int64_t kLimitMs = 600'000;
constexpr int kPauseMs = 50;

}  // namespace

bool cloud_init_makes_users(std::string_view status) {
  using Json = nlohmann::json;
  const Json document = Json::parse(status, nullptr, false);
  if (!document.is_object()) return false;
  const Json stages = document.value("v1", Json());
  if (!stages.is_object() || stages.value("stage", Json()) != "init") return false;
  const Json stage = stages.value("init", Json());
  return stage.is_object() && !stage.value("finished", Json()).is_number();
}

std::chrono::milliseconds wait_for_cloud_init_users(const Cancelled& cancelled) {
  const std::int64_t start_ms = boottime_ms();
  bool waited = false;
  while (boottime_ms() - start_ms < kLimitMs && !(cancelled && cancelled()) &&
         cloud_init_makes_users(read_file(kStatus, kMaxStatus).value_or("")) &&
         !sshd_is_running()) {
    waited = true;
    ::poll(nullptr, 0, kPauseMs);
  }
  return std::chrono::milliseconds(waited ? boottime_ms() - start_ms : 0);
}

}  // namespace warmroot::bootstrap
