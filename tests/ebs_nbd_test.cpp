// A volume behind NBD, asked by a client that speaks the protocol as QEMU does: it has the volume's
// bytes and its law, and each connection is an opener of its own.
#include "tests/sim/ebs_nbd.hpp"

#include <endian.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>

#include "tests/temporary_directory.hpp"

namespace warmroot::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kSize = 4 * kMiB;
/// Long enough that a busy machine does not take as long between two requests.
constexpr double kFirstTouchMs = 1000;

class Client {
 public:
  explicit Client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    take(18);
    put<std::uint32_t>(3);  // fixed newstyle, no zeroes
  }

  void option(std::uint32_t number, const std::string& data) {
    put<std::uint64_t>(0x49484156454f5054);
    put(number);
    put(static_cast<std::uint32_t>(data.size()));
    send(data);
  }
  /// (type, data) of a reply to an option.
  std::pair<std::uint32_t, std::string> option_reply() {
    take(12);
    const auto type = get<std::uint32_t>();
    return {type, take(get<std::uint32_t>())};
  }
  /// The size of the volume.
  std::uint64_t go() {
    option(7, std::string(6, '\0'));  // the export without a name, no information asked for
    const auto [type, info] = option_reply();
    EXPECT_EQ(type, 3U);
    EXPECT_EQ(option_reply().first, 1U);
    std::uint64_t size = 0;
    std::memcpy(&size, info.data() + 2, sizeof size);
    return be64toh(size);
  }
  void request(std::uint16_t command, std::uint64_t handle, ByteRange range,
               const std::string& data = {}) {
    put<std::uint32_t>(0x25609513);
    put<std::uint16_t>(0);
    put(command);
    put(handle);
    put(range.offset);
    put(static_cast<std::uint32_t>(range.length));
    send(data);
  }
  /// (handle, error) of the next answer, whichever it is of.
  std::pair<std::uint64_t, std::uint32_t> answer() {
    EXPECT_EQ(get<std::uint32_t>(), 0x67446698U);
    const auto error = get<std::uint32_t>();
    return {get<std::uint64_t>(), error};
  }
  std::string take(std::size_t size) {
    std::string bytes(size, '\0');
    if (size == 0) return bytes;  // recv(2) would wait for a first byte
    EXPECT_EQ(::recv(fd_.get(), bytes.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
    return bytes;
  }
  bool is_closed() {
    char byte = 0;
    return ::recv(fd_.get(), &byte, 1, 0) == 0;
  }

 private:
  template <typename Number>
  void put(Number number) {
    std::string bytes;
    for (int shift = 8 * (static_cast<int>(sizeof number) - 1); shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(number) >> shift));
    send(bytes);
  }
  template <typename Number>
  Number get() {
    std::uint64_t number = 0;
    for (const char byte : take(sizeof(Number)))
      number = number << 8 | static_cast<unsigned char>(byte);
    return static_cast<Number>(number);
  }
  void send(const std::string& bytes) {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  UniqueFd fd_;
};

/// Half of the volume comes from a snapshot, each block of which takes kFirstTouchMs.
class NbdTest : public testing::Test {
 protected:
  NbdTest() {
    content_.resize(kSize / 2);
    for (std::size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 7 / 4096);
    std::ofstream(directory_.path() + "/image", std::ios::binary) << content_;
    auto disk = EbsDisk::open(directory_.path() + "/image", directory_.path(), kSize);
    const ByteRange data[] = {{0, kSize / 2}};
    const VolumeProfile profile{.latency_median_ms = kFirstTouchMs,
                                .latency_sigma = 0,
                                .tail_probability = 0,
                                .stall_probability = 0};
    volume_ = std::make_shared<EbsVolume>("vol-a", 2, std::move(*disk), data, profile, 1,
                                          EbsClock::now());
    volume_->log_requests();
    server_ = std::move(*EbsNbd::start(socket(), volume_));
  }
  std::string socket() const { return directory_.path() + "/nbd"; }

  const TemporaryDirectory directory_;
  std::string content_;
  std::shared_ptr<EbsVolume> volume_;
  std::unique_ptr<EbsNbd> server_;
};

TEST_F(NbdTest, refuses_what_it_does_not_know_and_tells_its_size) {
  Client client(socket());
  client.option(8, "");  // structured replies, which QEMU asks for first
  EXPECT_EQ(client.option_reply().first, 0x80000001U);
  EXPECT_EQ(client.go(), kSize);
}

TEST_F(NbdTest, reads_at_once_what_is_present_and_cold_blocks_by_their_law_whatever_came_first) {
  Client client(socket());
  client.go();
  const auto start = EbsClock::now();
  client.request(0, 11, {kMiB, 4096});
  client.request(0, 12, {kSize / 2 + kMiB, 4096});
  EXPECT_EQ(client.answer(), std::pair(std::uint64_t{12}, 0U));
  EXPECT_EQ(client.take(4096), std::string(4096, '\0'));
  EXPECT_EQ(client.answer(), std::pair(std::uint64_t{11}, 0U));
  EXPECT_GE(EbsClock::now() - start, milliseconds(static_cast<int>(kFirstTouchMs)));
  EXPECT_EQ(client.take(4096), content_.substr(kMiB, 4096));
  const auto log = volume_->request_log();
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[0].first_touches, 1U);
  EXPECT_TRUE(log[0].waited);
  EXPECT_EQ(log[1].first_touches, 0U);
}

TEST_F(NbdTest, what_one_connection_writes_and_flushes_the_other_reads_as_another_opener) {
  Client first(socket());
  first.go();
  Client second(socket());
  second.go();
  first.request(1, 1, {3 * kMiB, 4096}, std::string(4096, 'w'));
  EXPECT_EQ(first.answer(), std::pair(std::uint64_t{1}, 0U));
  first.request(3, 2, {0, 0});
  EXPECT_EQ(first.answer(), std::pair(std::uint64_t{2}, 0U));
  EXPECT_EQ(volume_->counters().unflushed_bytes, 0U);
  second.request(0, 3, {3 * kMiB, 4096});
  EXPECT_EQ(second.answer(), std::pair(std::uint64_t{3}, 0U));
  EXPECT_EQ(second.take(4096), std::string(4096, 'w'));
  const auto log = volume_->request_log();
  ASSERT_EQ(log.size(), 3U);
  EXPECT_EQ(log[0].opener, 1U);
  EXPECT_EQ(log[2].opener, 2U);
}

TEST_F(NbdTest,
       a_range_beyond_the_volume_and_an_unknown_command_are_errors_and_a_wrong_magic_ends) {
  Client client(socket());
  client.go();
  client.request(0, 1, {kSize - 4096, 8192});
  EXPECT_EQ(client.answer(), std::pair(std::uint64_t{1}, std::uint32_t{EINVAL}));
  client.request(0, 2, {UINT64_MAX - 100, 4096});
  EXPECT_EQ(client.answer(), std::pair(std::uint64_t{2}, std::uint32_t{EINVAL}));
  client.request(4, 3, {0, 4096});
  EXPECT_EQ(client.answer(), std::pair(std::uint64_t{3}, std::uint32_t{EINVAL}));
  client.option(7, std::string(20, 'x'));
  EXPECT_TRUE(client.is_closed());
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

}  // namespace
}  // namespace warmroot::sim
