// The loopback listeners of all instances' metadata services. A machine reaches its own as
// 169.254.169.254:80, through a relay to the port given here. Owned by the region's server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/sim/instance_identity.hpp"
#include "tests/sim/region.hpp"

namespace warmroot::sim {

class ImdsServer {
 public:
  /// `mutex` guards `region`; requests take it. Both must outlive this.
  ImdsServer(const Region& region, std::mutex& mutex);
  ~ImdsServer();

  /// Starts the instance's listener and returns its port; 0 when no more are to be had (kMost).
  /// Called with the region's mutex held.
  std::uint16_t open(const std::string& instance_id);
  /// Ends it soon. Called with the region's mutex held, so that it must not wait for requests.
  void close(const std::string& instance_id);
  /// Waits for the listeners that were closed. Called without the mutex.
  void reap();

  /// Of what the instances show for who they are; PEM.
  std::string identity_certificate() { return signer_.certificate(); }

 private:
  struct Listener;
  /// Each listener has threads of its own; a region without machines may launch thousands.
  static constexpr std::size_t kMost = 64;

  const Region& region_;
  std::mutex& mutex_;
  IdentitySigner signer_;
  std::mutex closing_mutex_;
  std::map<std::string, std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<Listener>> closing_;
};

}  // namespace warmroot::sim
