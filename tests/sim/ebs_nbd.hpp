// One simulated EBS volume behind the NBD protocol on a Unix socket: the same law as EbsServer's
// files, without FUSE or the host's block layer in between. QEMU opens it; its NBD client keeps 16
// requests in flight on a connection. Called by warm_guest_bench, to show that results are not
// FUSE's.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "tests/sim/ebs_timer.hpp"
#include "tests/sim/ebs_volume.hpp"

namespace warmroot::sim {

/// What QEMU keeps in flight on one connection (MAX_NBD_REQUESTS of its block/nbd.c).
inline constexpr unsigned kNbdDepth = 16;

class EbsNbd {
 public:
  /// Serves the volume to whoever connects, until the destructor, which closes the connections and
  /// removes the socket. Each connection counts as one open() of the volume. Errors: the socket's.
  static Result<std::unique_ptr<EbsNbd>> start(const std::filesystem::path& socket,
                                               std::shared_ptr<EbsVolume> volume);
  ~EbsNbd();
  EbsNbd(const EbsNbd&) = delete;
  EbsNbd& operator=(const EbsNbd&) = delete;

 private:
  struct Connection;
  EbsNbd(std::filesystem::path socket, std::shared_ptr<EbsVolume> volume, UniqueFd listener);
  void accept_all();
  bool agree(Connection& connection) const;
  void serve(const std::shared_ptr<Connection>& connection);
  bool answer_one(const std::shared_ptr<Connection>& connection);

  const std::filesystem::path socket_;
  const std::shared_ptr<EbsVolume> volume_;
  UniqueFd listener_;
  EbsTimer timer_;
  std::atomic<bool> stopping_ = false;
  // The acceptor's, and the destructor's once that has ended.
  std::vector<std::shared_ptr<Connection>> connections_;
  std::vector<std::thread> receivers_;
  std::thread acceptor_;
};

}  // namespace warmroot::sim
