#include "tests/sim/qmp.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

namespace warmroot::sim {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// QEMU answers a command at once unless the host is very busy.
constexpr milliseconds kCommandTimeout{5000};

}  // namespace

Ok LineSocket::connect(const std::string& path, milliseconds wait) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(ErrorKind::misconfigured, "the socket path " + path + " is longer than 107 bytes");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto deadline = Clock::now() + wait;
  while (true) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return fail_errno("socket");
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      fd_ = std::move(fd);
      buffer_.clear();
      return {};
    }
    if (Clock::now() >= deadline) return fail_errno("connect " + path);
    std::this_thread::sleep_for(milliseconds{20});
  }
}

Ok LineSocket::send_line(const std::string& line) {
  const std::string bytes = line + "\n";
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count = ::send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0) return fail_errno("send");
    sent += static_cast<std::size_t>(count);
  }
  return {};
}

Result<std::string> LineSocket::read_line(milliseconds wait) {
  const auto deadline = Clock::now() + wait;
  while (true) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    // Also with no time left: a wait of zero is a look at what is there already.
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::max(left, milliseconds{0}).count())) <= 0)
      return fail(ErrorKind::retry_later, "no line within " + std::to_string(wait.count()) + " ms");
    char bytes[4096];
    const ssize_t count = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (count < 0) return fail_errno("recv");
    if (count == 0) return fail(ErrorKind::gone, "the peer closed the socket");
    buffer_.append(bytes, static_cast<std::size_t>(count));
  }
}

Ok Qmp::connect(const std::string& path, milliseconds wait) {
  TRY(socket_.connect(path, wait));
  TRY(socket_.read_line(kCommandTimeout));
  return execute("qmp_capabilities", nlohmann::json::object());
}

Ok Qmp::execute(const std::string& command, const nlohmann::json& arguments) {
  TRY(socket_.send_line(nlohmann::json{{"execute", command}, {"arguments", arguments}}.dump()));
  while (true) {
    TRY_ASSIGN(const std::string line, socket_.read_line(kCommandTimeout));
    const auto answer = nlohmann::json::parse(line, nullptr, false);
    if (answer.contains("return")) return {};
    if (answer.contains("error"))
      return fail(ErrorKind::refused,
                  command + ": " + answer["error"].value("desc", "no description"));
    if (answer.value("event", "") == "DEVICE_DELETED")
      deleted_ += answer["data"].value("device", "") + " ";
  }
}

Ok Qmp::wait_device_deleted(const std::string& device, milliseconds wait) {
  const auto deadline = Clock::now() + wait;
  while (deleted_.find(device + " ") == std::string::npos) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    TRY_ASSIGN(const std::string line, socket_.read_line(std::max(left, milliseconds{0})));
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.value("event", "") == "DEVICE_DELETED")
      deleted_ += event["data"].value("device", "") + " ";
  }
  deleted_.clear();
  return {};
}

}  // namespace warmroot::sim
