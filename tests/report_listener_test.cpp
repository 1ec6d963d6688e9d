// The report server's port: lost and taken again, taken by somebody else, left behind by nobody,
// never more connections than are looked after, and no more memory for one than a request needs.
#include "manager/report_listener.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
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
    pages.status_json = [this] { return status_; };
    pages.healthy = [] { return true; };
    pages.on_port = [this](bool there) { ++(there ? port_back_ : port_lost_); };
    auto server = ReportServer::start({"127.0.0.1", 0}, {}, board_, keys_, program_, hot_lists_,
                                      std::move(pages));
    CHECK(server.has_value());
    server_ = std::move(*server);
    client_ = std::make_unique<httplib::Client>("127.0.0.1", server_->port());
  }

  const std::string status_ = "{\"nodes\":\"" + std::string(100'000, 'n') + "\"}";
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

/// With little room in the kernel, so that who sends sees soon that nobody reads.
UniqueFd connect_to(int port) {
  UniqueFd made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int room = 32 * 1024;
  ::setsockopt(made.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool connected =
      ::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return connected ? std::move(made) : UniqueFd();
}

/// Sends `begin`, then `piece` again and again. Returns how much of it went out before the peer
/// hung up; `most` where it never does.
std::size_t sent_before_end(int connection, std::string begin, const std::string& piece,
                            std::size_t most) {
  while (begin.size() < 16 * 1024) begin += piece;
  std::string more = piece;
  while (more.size() < 16 * 1024) more += piece;
  std::size_t sent = 0;
  for (const std::string* next = &begin; sent < most; next = &more)
    for (std::size_t done = 0; done < next->size();) {
      const ssize_t count =
          ::send(connection, next->data() + done, next->size() - done, MSG_NOSIGNAL);
      if (count <= 0) return sent;
      done += static_cast<std::size_t>(count);
      sent += static_cast<std::size_t>(count);
    }
  return most;
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
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 400; ++i) {
    silent.push_back(connect_to(server_->port()));
    ASSERT_TRUE(silent.back());
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

/// Each was kept in memory for as long as it came, and anybody on the network can send it.
TEST_F(Listener, a_head_without_an_end_is_cut_off) {
  struct Case {
    const char* name;
    const char* begin;
    const char* piece;
  };
  const Case cases[] = {
      {"a request line", "GET /", "a"},
      {"a header line", "GET /healthz HTTP/1.1\r\nX-Long: ", "a"},
      {"headers", "GET /healthz HTTP/1.1\r\n", "a: b\r\n"},
      {"lines that are none", "GET /healthz HTTP/1.1\r\n", "\n"},
      {"headers behind a long request line", nullptr, "a: b\r\n"},
  };
  const std::string long_line = "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n";
  for (const auto& each : cases) {
    const UniqueFd connection = connect_to(server_->port());
    ASSERT_TRUE(connection);
    EXPECT_LT(sent_before_end(connection.get(), each.begin ? each.begin : long_line, each.piece,
                              std::size_t{4} * 1024 * 1024),
              std::size_t{1024} * 1024)
        << each.name;
  }
  EXPECT_EQ(client_->Get("/healthz", {{"X-Long", std::string(8000, 'a')}})->status, 200);
}

TEST_F(Listener, a_body_that_is_announced_as_endless_is_not_read_to_its_end) {
  const UniqueFd connection = connect_to(server_->port());
  ASSERT_TRUE(connection);
  const timeval limit{5, 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sent_before_end(connection.get(),
                  "POST /v1/hot-list HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n", "a",
                  std::size_t{3} * 1024 * 1024);
  char answer[512];
  EXPECT_TRUE(::recv(connection.get(), answer, sizeof answer, 0) >= 0 || errno == ECONNRESET)
      << "it waits for the rest";
}

/// A header of 8 KiB asked for some thousand copies of the page at once.
TEST_F(Listener, a_request_for_ranges_is_answered_with_the_page_once) {
  std::string ranges = "bytes=0-";
  for (int i = 0; i < 200; ++i) ranges += ",0-";
  for (const std::string& asked :
       {ranges, std::string("bytes=0-0"), std::string("bytes=999999-")}) {
    const auto reply = client_->Get("/status", {{"Range", asked}});
    ASSERT_TRUE(reply) << asked;
    EXPECT_EQ(reply->status, 200) << asked;
    EXPECT_EQ(reply->body, status_) << asked;
  }
}

}  // namespace
}  // namespace warmroot::manager
