#include "manager/report_listener.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "bootstrap/base/units.hpp"
#include "manager/listening.hpp"

namespace warmroot::manager {
namespace {

constexpr Milliseconds kFirstPause{200};
constexpr Milliseconds kLongestPause{10'000};
constexpr Milliseconds kEndSeen{1};

}  // namespace

void BoundedPool::enqueue(std::function<void()> task) {
  room_.acquire();
  pool_.enqueue([this, task = std::move(task)] {
    task();
    room_.release();
  });
}

int ReportListener::listen_on(const ListenAddress& address) {
  address_ = address;
  address_.port = bind_and_listen(*this, address.host, address.port);
  bound_ = address_.port >= 0;
  return address_.port;
}

/// httplib's loop closes the socket after an error, but keeps its number.
void ReportListener::serve(const std::function<void(bool)>& on_port) {
  while (!ending_) {
    listen_after_bind();
    bound_ = false;
    svr_sock_ = INVALID_SOCKET;
    if (ending_) break;
    on_port(false);
    take_port_again();
    if (!ending_) on_port(true);
  }
  if (const socket_t unserved = svr_sock_.exchange(INVALID_SOCKET); unserved != INVALID_SOCKET)
    ::close(unserved);
  ended_ = true;
}

void ReportListener::take_port_again() {
  Milliseconds pause = kFirstPause;
  do {
    for (Milliseconds slept{0}; slept < pause && !ending_; slept += kEndSeen)
      std::this_thread::sleep_for(kEndSeen);
    pause = std::min(2 * pause, kLongestPause);
    if (ending_) return;
    bound_ = bind_and_listen(*this, address_.host, address_.port) == address_.port;
  } while (!bound_);
}

bool ReportListener::listens() const {
  int listens = 0;
  socklen_t size = sizeof listens;
  return ::getsockopt(svr_sock_, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

/// A stop() between two loops is lost, and one while the queue of a lost port is worked off would
/// close a number that may be somebody else's by now.
void ReportListener::end() {
  ending_ = true;
  for (; !ended_; std::this_thread::sleep_for(kEndSeen))
    if (bound_ && listens()) stop();
}

}  // namespace warmroot::manager
