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

/// Reads no more of the stream under it than is allowed; beyond that a read fails.
class BoundedStream : public httplib::Stream {
 public:
  BoundedStream(httplib::Stream& stream, std::size_t most) : stream_(stream), left_(most) {}
  /// So much from now on.
  void allow(std::size_t most) { left_ = most; }

  bool is_readable() const override { return stream_.is_readable(); }
  bool is_writable() const override { return stream_.is_writable(); }
  ssize_t read(char* bytes, std::size_t size) override {
    if (left_ == 0) return -1;
    const ssize_t got = stream_.read(bytes, std::min(size, left_));
    if (got > 0) left_ -= static_cast<std::size_t>(got);
    return got;
  }
  ssize_t write(const char* bytes, std::size_t size) override { return stream_.write(bytes, size); }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    stream_.get_remote_ip_and_port(ip, port);
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    stream_.get_local_ip_and_port(ip, port);
  }
  socket_t socket() const override { return stream_.socket(); }

 private:
  httplib::Stream& stream_;
  std::size_t left_;
};

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

/// httplib's own keeps lines and headers in memory however many come, and writes a copy of the page
/// for each range that is asked for. Instances report every few seconds: kept open, a few idle
/// connections would hold all threads.
bool ReportListener::process_and_close_socket(socket_t connection) {
  const auto begins = [](httplib::Stream& stream) { return stream.is_readable(); };
  const auto serve_one = [this](httplib::Stream& stream) {
    BoundedStream bounded(stream, kMostHeadBytes);
    bool closed = false;
    return process_request(bounded, true, closed, [&](httplib::Request& request) {
      request.ranges.clear();
      bounded.allow(payload_max_length_);
    });
  };
  using httplib::detail::process_client_socket;  // makes a stream of the socket, and no more
  const bool served = svr_sock_ != INVALID_SOCKET &&
                      process_client_socket(connection, keep_alive_timeout_sec_, 0,
                                            write_timeout_sec_, write_timeout_usec_, begins) &&
                      process_client_socket(connection, read_timeout_sec_, read_timeout_usec_,
                                            write_timeout_sec_, write_timeout_usec_, serve_one);
  ::shutdown(connection, SHUT_RDWR);
  ::close(connection);
  return served;
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
