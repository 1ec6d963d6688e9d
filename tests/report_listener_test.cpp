// The report server's port: lost and taken again, taken by somebody else, left behind by nobody,
// and never more connections than are looked after.
#include "manager/report_listener.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "bootstrap/base/unique_fd.hpp"
#include "manager/listening.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

class Listener : public testing::Test {
 protected:
  Listener() {
    Pages pages;
    pages.healthy = [] { return true; };
    pages.on_port = [this](bool there) { ++(there ? port_back_ : port_lost_); };
    auto server = ReportServer::start({"127.0.0.1", 0}, {}, board_, keys_, program_, hot_lists_,
                                      std::move(pages));
    CHECK(server.has_value());
    server_ = std::move(*server);
    client_ = std::make_unique<httplib::Client>("127.0.0.1", server_->port());
  }

  ReportBoard board_;
  MemoryKeyStore keys_;
  BootstrapProgram program_;
  const TemporaryDirectory folder_;
  HotLists hot_lists_{folder_.path() + "/hot-lists"};
  std::atomic<int> port_lost_ = 0, port_back_ = 0;
  std::unique_ptr<ReportServer> server_;
  std::unique_ptr<httplib::Client> client_;
};

/// Of this process, whose server it is.
int listening_descriptor(int port) {
  for (int fd = 3; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    sockaddr_in address{};
    socklen_t length = sizeof address;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
        ntohs(address.sin_port) == port)
      return fd;
  }
  return -1;
}

/// Whether it comes to that within ten seconds.
bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 500 && !holds(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return holds();
}

/// An accept(2) that failed ended the server for good, and nothing said so.
TEST_F(Listener, a_port_that_is_lost_is_taken_again) {
  const int fd = listening_descriptor(server_->port());
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::shutdown(fd, SHUT_RDWR), 0);
  EXPECT_TRUE(soon([&] { return port_back_ == 1; }));
  EXPECT_EQ(port_lost_, 1);
  const auto reply = client_->Get("/healthz");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
}

TEST_F(Listener, a_port_that_somebody_else_has_taken_meanwhile_is_waited_for_and_told_of_once) {
  const int port = server_->port();
  const int fd = listening_descriptor(port);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::shutdown(fd, SHUT_RDWR), 0);
  ASSERT_TRUE(soon([&] { return port_lost_ == 1; }));
  {
    httplib::Server other;
    ASSERT_EQ(bind_and_listen(other, "127.0.0.1", port), port);
    std::thread serves([&] { other.listen_after_bind(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    EXPECT_EQ(port_back_, 0);
    other.stop();
    serves.join();
  }
  EXPECT_TRUE(soon([&] { return port_back_ == 1; }));
  EXPECT_EQ(port_lost_, 1);
}

TEST_F(Listener, a_server_that_ends_while_its_port_is_lost_leaves_nobody_listening) {
  const int port = server_->port();
  for (int after_ms : {0, 100, 199, 200, 201, 250}) {
    ::shutdown(listening_descriptor(port), SHUT_RDWR);
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
    server_.reset();
    EXPECT_EQ(listening_descriptor(port), -1) << after_ms;
    auto again =
        ReportServer::start({"127.0.0.1", port}, {}, board_, keys_, program_, hot_lists_, Pages{});
    ASSERT_TRUE(again.has_value()) << after_ms << ": " << again.error().message();
    server_ = std::move(*again);
  }
}

/// Each was a descriptor, and with a thousand nobody could open a file any more.
TEST_F(Listener, connections_beyond_those_that_are_looked_after_wait_in_the_kernel) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 400; ++i) {
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        ::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
        0);
  }
  const auto taken = [&] {
    int count = 0;
    for (int fd = 3; fd < 1024; ++fd) {
      sockaddr_in name{};
      socklen_t length = sizeof name;
      if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0 &&
          name.sin_family == AF_INET && ntohs(name.sin_port) == server_->port())
        ++count;
    }
    return count;  // with the one that listens, and one that waits to be looked after
  };
  EXPECT_TRUE(soon([&] { return taken() >= kMostConnections; })) << taken();
  EXPECT_LE(taken(), kMostConnections + 2);
  silent.clear();
  EXPECT_TRUE(soon([&] {
    const auto reply = client_->Get("/healthz");
    return reply && reply->status == 200;
  }));
}

}  // namespace
}  // namespace warmroot::manager
