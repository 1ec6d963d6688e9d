// A client of QEMU's monitor protocol (QMP) for one machine: commands in order, each answered
// within a bound. Used by machine.cpp only; knows nothing of volumes.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::sim {

/// A connected Unix stream socket that is read by lines. One thread at a time.
class LineSocket {
 public:
  /// Connects to `path`, trying again until `wait` has passed (QEMU makes its sockets soon after it
  /// starts).
  Ok connect(const std::string& path, std::chrono::milliseconds wait);
  Ok send_line(const std::string& line);
  /// The next line; retry_later when none came in time, gone when the peer closed.
  Result<std::string> read_line(std::chrono::milliseconds wait);
  bool connected() const { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
  std::string buffer_;
};

class Qmp {
 public:
  Ok connect(const std::string& path, std::chrono::milliseconds wait);

  /// Runs a command; QEMU's error text becomes a refused Error.
  Ok execute(const std::string& command, const nlohmann::json& arguments);

  /// Waits until QEMU reported that the device is gone from the guest; events that come meanwhile
  /// are dropped.
  Ok wait_device_deleted(const std::string& device, std::chrono::milliseconds wait);

 private:
  LineSocket socket_;
  std::string deleted_;  ///< devices reported deleted so far, space separated
};

}  // namespace warmroot::sim
