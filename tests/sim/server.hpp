// The region's HTTP door: EC2's Query protocol, SQS and EBS direct with signatures, the operator's
// control, and the instances' metadata listeners, in real time. Everything behind it is one Region
// under one mutex. Started by `warmroot-sim serve` and by the tests that drive the real client.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tests/sim/account_services.hpp"
#include "tests/sim/ebs_direct.hpp"
#include "tests/sim/event_bus.hpp"
#include "tests/sim/identity.hpp"
#include "tests/sim/imds_server.hpp"
#include "tests/sim/query.hpp"
#include "tests/sim/region.hpp"
#include "tests/sim/server_sigv4.hpp"

namespace warmroot::sim {

struct ServerOptions {
  int port = 0;  ///< 0: any
  SigningKeys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1"};
  double throttle_scale = 0;                ///< see QueryFront
  Milliseconds credential_life{3'600'000};  ///< of temporary credentials
};

class RegionServer {
 public:
  /// `region` must outlive this, and belongs to it between start() and stop().
  RegionServer(Region& region, ServerOptions options);
  ~RegionServer();

  /// Listens on 127.0.0.1 and moves the region's time. Errors: misconfigured when the port is
  /// taken.
  Ok start();
  /// Ends the listeners and all machines; idempotent.
  void stop();

  int port() const { return port_; }
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }

  /// Of the instances' identity documents; PEM.
  std::string identity_certificate() { return imds_.identity_certificate(); }
  /// The queues and the bus; only inside with(), or before start().
  Sqs& sqs() { return sqs_; }
  EventBus& events() { return events_; }
  EbsDirect& ebs_direct() { return ebs_direct_; }
  /// Calls `what` with the region and its front, as one more request.
  template <typename What>
  auto with(What what) {
    const std::lock_guard lock(mutex_);
    return what(region_, front_);
  }

 private:
  struct Http;
  /// How often the region's time is moved when nobody asks anything.
  static constexpr Milliseconds kTick{50};

  void tick();
  static Instant wall_clock();

  Region& region_;
  ServerOptions options_;
  QueryFront front_;
  Sqs sqs_;
  EventBus events_;
  EbsDirect ebs_direct_;
  AccountServices account_services_;
  Identity identity_;
  std::mutex mutex_;
  ImdsServer imds_;
  std::unique_ptr<Http> http_;
  int port_ = 0;
  std::atomic<bool> running_ = false;
  std::thread ticker_;
  std::thread listener_;
};

}  // namespace warmroot::sim
