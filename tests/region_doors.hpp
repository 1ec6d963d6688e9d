// The two doors of the simulated region, each with the real EC2 client in front of it: in one
// process under virtual time, and over signed HTTP in real time. Used by the region's tests over
// HTTP, and by contract.hpp.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "manager/aws/ec2_client.hpp"
#include "manager/aws/http_transport.hpp"
#include "tests/sim/region_transport.hpp"
#include "tests/sim/server.hpp"

namespace warmroot {

using namespace std::chrono_literals;

inline constexpr char kSnapshot[] = "snap-01000000000000001";
inline constexpr char kBase[] = "ami-02000000000000002";
inline constexpr char kZone[] = "us-east-1a";
inline constexpr Milliseconds kStep{20};
/// A loaded machine may need this long for what takes a few hundred milliseconds.
inline constexpr int kMostSteps = 1000;

inline sim::RegionTimes short_times() {
  sim::RegionTimes times;
  times.creating = 100ms;
  // Long enough to be met pending over HTTP on a busy machine.
  times.pending = 1500ms;
  times.attaching = times.detaching = times.deleting = 100ms;
  times.shutting_down = 200ms;
  times.snapshotting = 300ms;
  times.copying_per_gib = 50ms;
  times.status_stale = 0ms;
  times.notice = 1000ms;
  return times;
}

inline Instant wall_clock() {
  return std::chrono::floor<Milliseconds>(std::chrono::system_clock::now());
}

inline aws::DescribeRequest by_id(const std::string& id) {
  aws::DescribeRequest request;
  request.ids = {id};
  return request;
}

inline aws::DescribeRequest by_filter(const std::string& name, const std::string& value) {
  aws::DescribeRequest request;
  request.filters = {{name, {value}}};
  return request;
}

/// An EC2, the real client of it, and time that passes there.
class Ec2Door {
 public:
  virtual ~Ec2Door() = default;
  virtual aws::Ec2& ec2() = 0;
  virtual void pass(Milliseconds time) = 0;
};

/// The simulated region's, of which a test may see and change everything.
class Door : public Ec2Door {
 public:
  virtual void with(const std::function<void(sim::Region&, sim::QueryFront&)>& what) = 0;
  sim::NoHardware hardware;
};

inline sim::Catalog catalog() {
  return sim::builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"});
}

class InProcess : public Door {
 public:
  aws::Ec2& ec2() override { return client_; }
  void pass(Milliseconds time) override { region_.advance_by(time); }
  void with(const std::function<void(sim::Region&, sim::QueryFront&)>& what) override {
    what(region_, front_);
  }

 private:
  sim::Region region_{catalog(), short_times(), hardware, *parse_iso8601("2026-01-02T03:04:05Z")};
  sim::QueryFront front_{region_};
  sim::RegionTransport transport_{front_};
  aws::Ec2Client client_{transport_, [this](Milliseconds time) { region_.advance_by(time); },
                         [] { return 0.5; }};
};

inline aws::HttpTransport transport_to(const std::string& endpoint, const std::string& secret,
                                       aws::WallClock clock = wall_clock) {
  aws::HttpTransportSettings settings;
  settings.endpoint = *aws::parse_endpoint(endpoint);
  settings.region = "us-east-1";
  return {settings,
          [secret] {
            return aws::Credentials{"AKIDEXAMPLE", aws::Secret(secret), aws::Secret()};
          },
          std::move(clock)};
}

class OverHttp : public Door {
 public:
  aws::Ec2& ec2() override { return client_; }
  void pass(Milliseconds time) override { std::this_thread::sleep_for(time); }
  void with(const std::function<void(sim::Region&, sim::QueryFront&)>& what) override {
    server_.with([&](sim::Region& region, sim::QueryFront& front) { what(region, front); });
  }
  sim::RegionServer& server() { return server_; }

 private:
  sim::Region region_{catalog(), short_times(), hardware, wall_clock()};
  sim::RegionServer server_{region_, {}};
  const bool started_ = server_.start().has_value();  // the port is known from here on
  aws::HttpTransport transport_ = transport_to(server_.endpoint(), "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
  aws::Ec2Client client_{transport_, [](Milliseconds time) { std::this_thread::sleep_for(time); },
                         [] { return 0.5; }};
};

}  // namespace warmroot
