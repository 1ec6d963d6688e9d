// An HTTP server on loopback that plays a peer of the bootstrap: for notice_wire_test and
// report_wire_test.
#pragma once

#include <httplib.h>

#include <chrono>
#include <string>
#include <thread>

namespace warmroot::bootstrap {

/// An HTTP server for as long as the test lasts.
class Server {
 public:
  void start() {
    port_ = http.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { http.listen_after_bind(); });
    while (!http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Server() {
    http.stop();
    if (thread_.joinable()) thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  httplib::Server http;

 private:
  int port_ = 0;
  std::thread thread_;
};

}  // namespace warmroot::bootstrap
