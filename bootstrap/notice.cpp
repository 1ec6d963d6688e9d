#include "bootstrap/notice.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace warmroot::bootstrap {
namespace {

/// 1,024 packets a second are allowed, EC2 recommends every five seconds, and each second of the
/// two minutes counts.
constexpr std::chrono::seconds kInterval{1};

}  // namespace

bool watch_for_notice(const NoticeLook& look, std::stop_token stop,
                      const std::function<void(const InstanceAction&)>& on_notice) {
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    if (const auto body = look(); body && *body) {
      if (const auto action = parse_instance_action(**body)) {
        on_notice(*action);
        return true;
      }
    }
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, kInterval, [] { return false; });
  }
  return false;
}

}  // namespace warmroot::bootstrap
