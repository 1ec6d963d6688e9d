// The line protocol to a guest and to QEMU's monitor, over a socket pair's worth of Unix socket.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <string>

#include "bootstrap/base/unique_fd.hpp"
#include "tests/sim/qmp.hpp"

namespace warmroot::sim {
namespace {

using std::chrono::milliseconds;

class LineSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "line-socket-" + std::to_string(::getpid());
    ::unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_TRUE(socket_.connect(path_, milliseconds{1000}));
    peer_.reset(::accept(listener.get(), nullptr, nullptr));
    ASSERT_TRUE(peer_);
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  void peer_says(const std::string& text) {
    ASSERT_EQ(::send(peer_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }

  std::string path_;
  LineSocket socket_;
  UniqueFd peer_;
};

TEST_F(LineSocketTest, a_wait_of_zero_reads_what_is_there) {
  peer_says("up\n");
  const auto line = socket_.read_line(milliseconds{0});
  ASSERT_TRUE(line) << line.error().message();
  EXPECT_EQ(*line, "up");
}

TEST_F(LineSocketTest, a_wait_of_zero_without_a_line_is_retry_later) {
  peer_says("half a li");
  const auto line = socket_.read_line(milliseconds{0});
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().kind, ErrorKind::retry_later);
  peer_says("ne\nnext\n");
  EXPECT_EQ(socket_.read_line(milliseconds{1000}).value_or(""), "half a line");
  EXPECT_EQ(socket_.read_line(milliseconds{0}).value_or(""), "next");
}

TEST_F(LineSocketTest, a_closed_peer_is_gone) {
  peer_.reset();
  const auto line = socket_.read_line(milliseconds{1000});
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().kind, ErrorKind::gone);
}

}  // namespace
}  // namespace warmroot::sim
