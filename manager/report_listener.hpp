// The HTTP server under the report server: one that no error of accept(2) ends, that takes no more
// connections at a time than it can look after, and that reads no more of a request than it may be
// long. cpp-httplib does none of these by itself.
#pragma once

#include <httplib.h>

#include <atomic>
#include <functional>
#include <semaphore>

#include "manager/reports.hpp"

namespace warmroot::manager {

/// Connections that are taken at a time, served or waiting for a thread. Those beyond wait in the
/// kernel's queue, where they cost no descriptor.
inline constexpr int kMostConnections = 256;

/// Of a request before its body: a peer that goes on is cut off.
inline constexpr std::size_t kMostHeadBytes = std::size_t{64} * 1024;

/// A pool of threads whose queue is bounded: who adds to a full one waits.
class BoundedPool : public httplib::TaskQueue {
 public:
  explicit BoundedPool(std::size_t threads) : pool_(threads) {}
  void enqueue(std::function<void()> task) override;
  void shutdown() override { pool_.shutdown(); }

 private:
  std::counting_semaphore<> room_{kMostConnections};
  httplib::ThreadPool pool_;
};

/// Routes and other limits are httplib's. A connection serves one request and is closed, and a
/// request for ranges is answered in full. listen_on() in one thread, serve() in another until
/// end().
class ReportListener : public httplib::Server {
 public:
  /// The port, or -1 with errno.
  int listen_on(const ListenAddress& address);
  /// Returns after end(). `on_port` hears that the port was lost (false), and that it is there
  /// again.
  void serve(const std::function<void(bool there)>& on_port);
  /// Returns once nothing is served any more and the port is free.
  void end();

 private:
  bool process_and_close_socket(socket_t connection) override;
  void take_port_again();
  bool listens() const;

  ListenAddress address_;
  std::atomic<bool> bound_ = false;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> ended_ = false;
};

}  // namespace warmroot::manager
