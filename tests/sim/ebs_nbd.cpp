#include "tests/sim/ebs_nbd.hpp"

#include <endian.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "bootstrap/base/units.hpp"

namespace warmroot::sim {
namespace {

// The protocol's numbers: doc/proto.md of the reference implementation. All fields big-endian.
constexpr std::uint64_t kInitMagic = 0x4e42444d41474943, kOptionMagic = 0x49484156454f5054;
constexpr std::uint64_t kOptionReplyMagic = 0x3e889045565a9;
constexpr std::uint32_t kRequestMagic = 0x25609513, kReplyMagic = 0x67446698;
constexpr std::uint16_t kFixedNewstyle = 1, kNoZeroes = 2;
constexpr std::uint32_t kOptAbort = 2, kOptGo = 7;
constexpr std::uint32_t kRepAck = 1, kRepInfo = 3, kRepUnsupported = 0x80000001;
constexpr std::uint16_t kHasFlags = 1, kSendFlush = 4;
enum Command : std::uint16_t { kRead = 0, kWrite = 1, kDisconnect = 2, kFlush = 3 };
/// QEMU sends up to 32 MiB at once; an option is a name and a few words.
constexpr std::uint32_t kMostBytes = 32 * kMiB, kMostOption = 8 * kKiB;
constexpr unsigned kAnswerThreads = 2;

struct [[gnu::packed]] Request {
  std::uint32_t magic;
  std::uint16_t flags, command;
  std::uint64_t handle, offset;
  std::uint32_t length;
};
struct [[gnu::packed]] Reply {
  std::uint32_t magic, error;
  std::uint64_t handle;
};
struct [[gnu::packed]] Option {
  std::uint64_t magic;
  std::uint32_t option, length;
};
struct [[gnu::packed]] OptionReply {
  std::uint64_t magic;
  std::uint32_t option, type, length;
};
struct [[gnu::packed]] Greeting {
  std::uint64_t init, option;
  std::uint16_t flags;
};
struct [[gnu::packed]] ExportInfo {
  std::uint16_t type;
  std::uint64_t size;
  std::uint16_t flags;
};

bool receive(int fd, void* into, std::size_t size) {
  return size == 0 || ::recv(fd, into, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

bool send_all(int fd, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

template <typename Message>
bool send_message(int fd, const Message& message) {
  return send_all(fd, {reinterpret_cast<const char*>(&message), sizeof message});
}

}  // namespace

struct EbsNbd::Connection {
  UniqueFd fd;
  unsigned opener = 0;
  std::mutex sending;

  void reply(std::uint64_t handle, int error, std::span<const char> bytes) {
    const Reply head{htobe32(kReplyMagic), htobe32(static_cast<std::uint32_t>(error)), handle};
    const std::lock_guard lock(sending);
    if (!send_message(fd.get(), head) || !send_all(fd.get(), bytes))
      ::shutdown(fd.get(), SHUT_RDWR);
  }
};

Result<std::unique_ptr<EbsNbd>> EbsNbd::start(const std::filesystem::path& socket,
                                              std::shared_ptr<EbsVolume> volume) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.native().size() >= sizeof address.sun_path)
    return fail(ErrorKind::misconfigured, socket.string() + " is too long for a socket's name");
  std::memcpy(address.sun_path, socket.c_str(), socket.native().size());
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) ||
      ::listen(listener.get(), 8) != 0)
    return fail_errno("listening at " + socket.string());
  return std::unique_ptr<EbsNbd>(new EbsNbd(socket, std::move(volume), std::move(listener)));
}

EbsNbd::EbsNbd(std::filesystem::path socket, std::shared_ptr<EbsVolume> volume, UniqueFd listener)
    : socket_(std::move(socket)),
      volume_(std::move(volume)),
      listener_(std::move(listener)),
      timer_(kAnswerThreads),
      acceptor_([this] { accept_all(); }) {}

EbsNbd::~EbsNbd() {
  stopping_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (const auto& connection : connections_) ::shutdown(connection->fd.get(), SHUT_RDWR);
  for (std::thread& receiver : receivers_) receiver.join();
  timer_.hurry();
  timer_.stop();
  ::unlink(socket_.c_str());
}

void EbsNbd::accept_all() {
  while (!stopping_) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) return;
    const auto connection = std::make_shared<Connection>();
    connection->fd = std::move(fd);
    connection->opener = volume_->next_opener();
    connections_.push_back(connection);
    receivers_.emplace_back([this, connection] { serve(connection); });
  }
}

/// The handshake, up to the client's NBD_OPT_GO. False where it leaves before.
bool EbsNbd::agree(Connection& connection) const {
  const int fd = connection.fd.get();
  const Greeting greeting{htobe64(kInitMagic), htobe64(kOptionMagic),
                          htobe16(kFixedNewstyle | kNoZeroes)};
  std::uint32_t client_flags = 0;
  if (!send_message(fd, greeting) || !receive(fd, &client_flags, sizeof client_flags)) return false;
  for (Option option{}; receive(fd, &option, sizeof option);) {
    const std::uint32_t length = be32toh(option.length);
    if (be64toh(option.magic) != kOptionMagic || length > kMostOption) return false;
    std::string data(length, '\0');
    if (!receive(fd, data.data(), length)) return false;
    const auto reply = [&](std::uint32_t type, std::uint32_t size) {
      return send_message(
          fd, OptionReply{htobe64(kOptionReplyMagic), option.option, htobe32(type), htobe32(size)});
    };
    const std::uint32_t wanted = be32toh(option.option);
    if (wanted == kOptGo) {
      const ExportInfo info{0, htobe64(volume_->size()), htobe16(kHasFlags | kSendFlush)};
      return reply(kRepInfo, sizeof info) && send_message(fd, info) && reply(kRepAck, 0);
    }
    if (!reply(wanted == kOptAbort ? kRepAck : kRepUnsupported, 0) || wanted == kOptAbort)
      return false;
  }
  return false;
}

void EbsNbd::serve(const std::shared_ptr<Connection>& connection) {
  become_device_thread();
  bool goes_on = agree(*connection);
  while (goes_on) goes_on = answer_one(connection);
  ::shutdown(connection->fd.get(), SHUT_RDWR);
}

/// Takes the next request; its answer is sent when the volume's law says so.
bool EbsNbd::answer_one(const std::shared_ptr<Connection>& connection) {
  Request request{};
  if (!receive(connection->fd.get(), &request, sizeof request)) return false;
  if (be32toh(request.magic) != kRequestMagic) return false;
  const std::uint64_t handle = request.handle;  // the client's own, sent back as it is
  const ByteRange range{be64toh(request.offset), be32toh(request.length)};
  const auto command = be16toh(request.command);
  if (command == kDisconnect || range.length > kMostBytes) return false;
  std::vector<char> bytes(command == kWrite ? range.length : 0);
  if (!receive(connection->fd.get(), bytes.data(), bytes.size())) return false;
  const bool inside =
      range.offset <= volume_->size() && range.length <= volume_->size() - range.offset;
  if (command == kFlush) {
    timer_.schedule(volume_->flush(connection->opener),
                    [connection, handle] { connection->reply(handle, 0, {}); });
  } else if (!inside || (command != kRead && command != kWrite)) {
    connection->reply(handle, EINVAL, {});
  } else if (command == kWrite) {
    const auto due = volume_->write(range.offset, bytes, connection->opener);
    timer_.schedule(due.value_or(EbsClock::now()), [connection, handle, error = due ? 0 : EIO] {
      connection->reply(handle, error, {});
    });
  } else {
    timer_.schedule(volume_->begin_read(range, connection->opener), [connection, handle, range,
                                                                     volume = volume_] {
      std::vector<char> read(range.length);
      const Ok done = volume->read_bytes(range.offset, read);
      connection->reply(handle, done ? 0 : EIO,
                        done ? std::span<const char>(read) : std::span<const char>());
    });
  }
  return true;
}

}  // namespace warmroot::sim
