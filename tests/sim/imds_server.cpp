// See the header.
#include "tests/sim/imds_server.hpp"

#include <httplib.h>

#include <chrono>
#include <thread>

#include "bootstrap/base/words.hpp"
#include "manager/listening.hpp"
#include "tests/sim/imds.hpp"

namespace warmroot::sim {

namespace {

/// A guest asks one thing at a time; its warm-up scripts two or three.
constexpr int kGuestThreads = 3;
/// Also how long a closed listener can take to end.
constexpr int kGuestKeepAliveSeconds = 2;
constexpr int kGuestKeepAliveRequests = 1000;

std::map<std::string, std::string> lower_headers(const httplib::Headers& headers) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : headers) out.emplace(lower(name), value);
  return out;
}

}  // namespace

struct ImdsServer::Listener {
  Listener(const Region& region, IdentitySigner& signer, std::mutex& mutex,
           const std::string& instance_id)
      : imds(region, signer, instance_id), region_mutex(mutex) {}

  int start() {
    server.new_task_queue = [] { return new httplib::ThreadPool(kGuestThreads); };
    server.set_keep_alive_timeout(kGuestKeepAliveSeconds);
    server.set_keep_alive_max_count(kGuestKeepAliveRequests);
    server.set_tcp_nodelay(true);
    // Before routing, because httplib waits for the body of a PUT that says no length, as curl's
    // does.
    server.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          ImdsReply reply;
          {
            const std::lock_guard lock(region_mutex);
            reply = imds.answer(request.method, request.path, lower_headers(request.headers));
          }
          response.status = reply.status;
          for (const auto& [name, value] : reply.headers) response.set_header(name, value);
          if (request.get_header_value<std::uint64_t>("Content-Length") != 0)
            response.set_header("Connection", "close");  // the body was not read
          response.set_content(reply.body, reply.content_type);
          return httplib::Server::HandlerResponse::Handled;
        });
    const int port = manager::bind_and_listen(server, "127.0.0.1", 0);
    if (port <= 0) return 0;
    thread = std::thread([this] { server.listen_after_bind(); });
    // stop() does nothing to a server that has not begun yet.
    while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return port;
  }

  void join() {
    if (thread.joinable()) thread.join();
  }

  Imds imds;
  std::mutex& region_mutex;
  httplib::Server server;
  std::thread thread;
};

ImdsServer::ImdsServer(const Region& region, std::mutex& mutex) : region_(region), mutex_(mutex) {}

ImdsServer::~ImdsServer() {
  for (auto& [id, listener] : listeners_) listener->server.stop();
  for (auto& [id, listener] : listeners_) listener->join();
  reap();
}

std::uint16_t ImdsServer::open(const std::string& instance_id) {
  if (listeners_.size() >= kMost) return 0;
  auto listener = std::make_unique<Listener>(region_, signer_, mutex_, instance_id);
  const int port = listener->start();
  if (port == 0) return 0;
  listeners_[instance_id] = std::move(listener);
  return static_cast<std::uint16_t>(port);
}

void ImdsServer::close(const std::string& instance_id) {
  auto closed = listeners_.extract(instance_id);
  if (closed.empty()) return;
  closed.mapped()->server.stop();
  const std::lock_guard lock(closing_mutex_);
  closing_.push_back(std::move(closed.mapped()));
}

void ImdsServer::reap() {
  std::vector<std::unique_ptr<Listener>> closed;
  {
    const std::lock_guard lock(closing_mutex_);
    closed.swap(closing_);
  }
  for (auto& listener : closed) listener->join();
}

}  // namespace warmroot::sim
