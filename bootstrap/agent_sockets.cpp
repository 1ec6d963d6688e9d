#include "bootstrap/agent_sockets.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <set>

#include "bootstrap/files.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr int kStopLookMs = 200;
/// Anybody can make directories there, also from within the volume, and so take the place of
/// others' agents; a login has one.
constexpr std::size_t kMostLinks = 4096;
/// For taking the links away: those that are left lead nowhere, and nobody minds them.
constexpr std::int64_t kUnlinkMs = 500;

bool is_agent_directory(const std::string& name) {
  return name.rfind("ssh-", 0) == 0;
}

class Mirror {
 public:
  Mirror(std::string base_tmp, std::string point)
      : base_tmp_(std::move(base_tmp)), point_(std::move(point)) {}

  void link(const std::string& name) {
    if (links_.size() >= kMostLinks) return;
    const UniqueFd tmp = open_tmp();
    const std::string target = std::string("/") + kBaseTmpInVolume + "/" + name;
    if (tmp && ::symlinkat(target.c_str(), tmp.get(), name.c_str()) == 0) links_.insert(name);
  }
  void unlink(const std::string& name) {
    if (links_.erase(name) == 0) return;
    if (const UniqueFd tmp = open_tmp()) ::unlinkat(tmp.get(), name.c_str(), 0);
  }
  void link_present(const std::stop_token& stop) {
    each_name(base_tmp_, [&](const char* name) {
      if (is_agent_directory(name)) link(name);
      return !stop.stop_requested() && links_.size() < kMostLinks;
    });
  }
  void unlink_all() {
    const std::int64_t end_ms = boottime_ms() + kUnlinkMs;
    while (!links_.empty() && boottime_ms() < end_ms) unlink(std::string(*links_.begin()));
  }

 private:
  UniqueFd open_tmp() const {
    auto root = RootDirectory::open(point_);
    if (!root) return UniqueFd();
    auto tmp = root->open_inside("tmp", O_PATH | O_DIRECTORY);
    return tmp ? std::move(*tmp) : UniqueFd();
  }
  const std::string base_tmp_, point_;
  std::set<std::string> links_;
};

}  // namespace

void mirror_agent_sockets(const std::string& base_tmp, const std::string& point,
                          std::stop_token stop) {
  const UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watch || ::inotify_add_watch(watch.get(), base_tmp.c_str(),
                                    IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM) < 0)
    return;
  Mirror mirror(base_tmp, point);
  mirror.link_present(stop);
  while (!stop.stop_requested()) {
    pollfd item{watch.get(), POLLIN, 0};
    if (::poll(&item, 1, kStopLookMs) <= 0) continue;
    alignas(inotify_event) char buffer[8192];
    const ssize_t got = ::read(watch.get(), buffer, sizeof buffer);
    for (ssize_t at = 0; at + static_cast<ssize_t>(sizeof(inotify_event)) <= got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      const std::string name = event->len > 0 ? event->name : "";
      if (!is_agent_directory(name)) continue;
      if ((event->mask & (IN_CREATE | IN_MOVED_TO)) != 0)
        mirror.link(name);
      else
        mirror.unlink(name);
    }
  }
  mirror.unlink_all();
}

}  // namespace warmroot::bootstrap
