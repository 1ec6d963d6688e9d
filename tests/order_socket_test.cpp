// The socket between `serve` and the commands beside it, with both real ends.
#include "manager/order_socket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Milliseconds kSoon{5'000};

class OrderSocketTest : public ::testing::Test {
 protected:
  std::unique_ptr<OrderSocket> listen(OrderSocketLimits limits = {}) {
    auto made = OrderSocket::listen(
        folder_, [this] { ++wakes_; }, limits);
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message());
    return made ? std::move(*made) : nullptr;
  }
  OrderConnection connect() {
    auto made = OrderConnection::open(folder_);
    CHECK(made.has_value());
    return std::move(*made);
  }
  /// A peer that says whatever it likes.
  UniqueFd raw(const std::string& text) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder_ + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
    CHECK(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    std::ignore = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    const timeval patience{5, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
  }
  static bool is_ended(const UniqueFd& fd) {
    char byte = 0;
    const auto got = ::recv(fd.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  template <typename Condition>
  static bool within_seconds(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + kSoon;
    while (std::chrono::steady_clock::now() < until) {
      if (condition()) return true;
      std::this_thread::sleep_for(Milliseconds(5));
    }
    return false;
  }

  TemporaryDirectory directory_;
  std::string folder_ = directory_.path();
  std::atomic<int> wakes_ = 0;
};

TEST_F(OrderSocketTest, an_order_is_awaited_and_answered_once_to_everybody_who_waits) {
  const auto socket = listen();
  auto one = connect();
  auto other = connect();
  ASSERT_TRUE(one.await({7, 8}));
  ASSERT_TRUE(other.await({7}));
  ASSERT_TRUE(within_seconds([&] { return wakes_ >= 2 && socket->awaited().size() == 2; }));
  EXPECT_THAT(socket->awaited(), ElementsAre(7, 8));
  socket->answer({7, true, "i-1 \"is\"\nreleased"});
  for (auto* each : {&one, &other}) {
    const auto answer = each->next(kSoon);
    ASSERT_TRUE(answer && *answer);
    EXPECT_EQ((*answer)->order, 7);
    EXPECT_TRUE((*answer)->met);
    EXPECT_EQ((*answer)->text, "i-1 \"is\"\nreleased");
  }
  EXPECT_THAT(socket->awaited(), ElementsAre(8));
  const auto nothing_yet = one.next(Milliseconds(20));
  ASSERT_TRUE(nothing_yet);
  EXPECT_FALSE(*nothing_yet);
}

TEST_F(OrderSocketTest, whoever_only_wakes_awaits_nothing) {
  const auto socket = listen();
  wake_serve(folder_);
  EXPECT_TRUE(within_seconds([&] { return wakes_ > 0; }));
  EXPECT_THAT(socket->awaited(), IsEmpty());
}

TEST_F(OrderSocketTest, without_a_listener_waking_is_nothing_and_connecting_says_so) {
  wake_serve(folder_);
  const auto none = OrderConnection::open(folder_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::gone);
}

TEST_F(OrderSocketTest, the_end_of_serve_is_seen_by_who_waits_and_removes_the_socket) {
  auto socket = listen();
  auto waiting = connect();
  ASSERT_TRUE(waiting.await({1}));
  socket.reset();
  const auto answer = waiting.next(kSoon);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::gone);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/socket"));
}

TEST_F(OrderSocketTest, the_socket_of_a_dead_process_is_replaced_and_is_only_its_users) {
  {
    UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder_ + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  const auto socket = listen();
  struct stat info {};
  ASSERT_EQ(::stat((folder_ + "/socket").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  auto waiting = connect();
  ASSERT_TRUE(waiting.await({1}));
  EXPECT_TRUE(within_seconds([&] { return !socket->awaited().empty(); }));
}

TEST_F(OrderSocketTest, a_folder_whose_path_is_longer_than_a_sockets_may_be_works) {
  folder_ += "/" + std::string(150, 'd');
  std::filesystem::create_directory(folder_);
  const auto socket = listen();
  auto waiting = connect();
  ASSERT_TRUE(waiting.await({3}));
  EXPECT_TRUE(within_seconds([&] { return socket->awaited().contains(3); }));
}

TEST_F(OrderSocketTest, garbage_ends_its_connection_and_no_other) {
  const auto socket = listen();
  auto honest = connect();
  ASSERT_TRUE(honest.await({5}));
  ASSERT_TRUE(within_seconds([&] { return wakes_ == 1; }));
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n"), std::string("[1]\n"),
        std::string("{\"order\": \"x\"}\n"), std::string("{\"order\": 1.5}\n"),
        std::string(100'000, '['), std::string(300, ' ') + "\n", std::string("\0\xff\n", 3)})
    EXPECT_TRUE(is_ended(raw(garbage))) << garbage.substr(0, 40);
  EXPECT_EQ(wakes_, 1);
  socket->answer({5, false, "no"});
  const auto answer = honest.next(kSoon);
  ASSERT_TRUE(answer && *answer);
  EXPECT_FALSE((*answer)->met);
}

TEST_F(OrderSocketTest, silent_connections_end_and_those_that_had_no_room_are_served_then) {
  const auto socket = listen({2, 100, Milliseconds(200)});
  const UniqueFd silent = raw("");
  const UniqueFd half = raw("{\"order\"");
  auto third = connect();
  ASSERT_TRUE(third.await({9}));
  EXPECT_TRUE(is_ended(silent));
  EXPECT_TRUE(is_ended(half));
  ASSERT_TRUE(within_seconds([&] { return socket->awaited().contains(9); }));
  std::this_thread::sleep_for(Milliseconds(1'000));  // five times its silence: it waits for us
  socket->answer({9, true, "done"});
  const auto answer = third.next(kSoon);
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ((*answer)->text, "done");
}

TEST_F(OrderSocketTest, more_orders_than_can_be_awaited_end_the_connection_that_asks) {
  const auto socket = listen({64, 3, Milliseconds(10'000)});
  auto first = connect();
  ASSERT_TRUE(first.await({1, 2, 3}));
  ASSERT_TRUE(within_seconds([&] { return socket->awaited().size() == 3; }));
  auto second = connect();
  std::ignore = second.await({4});
  EXPECT_FALSE(second.next(kSoon));
  EXPECT_THAT(socket->awaited(), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace warmroot::manager
