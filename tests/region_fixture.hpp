// A simulated region in one process with its Query front, and the calls that its tests make again
// and again.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/sim/query.hpp"

namespace warmroot::sim {

using namespace std::chrono_literals;

inline constexpr char kSnapshot[] = "snap-01000000000000001";
inline constexpr char kUnreadable[] = "snap-04000000000000004";
inline constexpr char kBase[] = "ami-02000000000000002";
inline constexpr char kArm[] = "ami-03000000000000003";

inline Instant start_time() {
  return *parse_iso8601("2026-01-02T03:04:05.000Z");
}

/// The text of the first <name> after `from`.
inline std::string element(const std::string& xml, const std::string& name, std::size_t from = 0) {
  const auto begin = xml.find("<" + name + ">", from);
  if (begin == std::string::npos) return {};
  const auto text = begin + name.size() + 2;
  return xml.substr(text, xml.find("</" + name + ">", text) - text);
}

inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class RegionTest : public testing::Test {
 protected:
  QueryReply call(const std::string& form) { return front.answer(form + "&Version=2016-11-15"); }
  std::string code(const std::string& form) { return call(form).code; }

  std::string volume(const std::string& more = "") {
    const auto reply = call("Action=CreateVolume&AvailabilityZone=us-east-1a&SnapshotId=" +
                            std::string(kSnapshot) + more);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return element(reply.body, "volumeId");
  }
  QueryReply launch(const std::string& more = "", const std::string& image = kBase) {
    return call(
        "Action=RunInstances&MinCount=1&MaxCount=1&InstanceType=g5.xlarge&ImageId=" + image + more);
  }
  std::string instance(const std::string& more = "") {
    const auto reply = launch(more);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return element(reply.body, "instanceId");
  }
  std::string spot_instance(const std::string& more = "") {
    return instance("&InstanceMarketOptions.MarketType=spot" + more);
  }
  std::string attach_form(const std::string& disk, const std::string& guest,
                          const std::string& device = "/dev/sdf") {
    return "Action=AttachVolume&VolumeId=" + disk + "&InstanceId=" + guest + "&Device=" + device;
  }
  std::string detach_form(const std::string& disk, const std::string& guest) {
    return "Action=DetachVolume&VolumeId=" + disk + "&InstanceId=" + guest;
  }
  /// An available volume attached to a running instance.
  std::pair<std::string, std::string> attached_pair() {
    const auto disk = volume();
    const auto guest = spot_instance();
    region.advance_by(10s);
    EXPECT_EQ(code(attach_form(disk, guest)), "");
    region.advance_by(5s);
    return {disk, guest};
  }
  std::string disk_state(const std::string& id) {
    return std::string(to_string(region.volume(id)->state));
  }
  std::string link_state(const std::string& id) {
    const auto& link = region.volume(id)->link;
    return link ? std::string(to_string(link->state)) : "none";
  }
  std::string guest_state(const std::string& id) {
    return std::string(to_string(region.instance(id)->state));
  }

  NoHardware hardware;
  Region region{builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"}), RegionTimes{}, hardware,
                start_time()};
  QueryFront front{region};
};

}  // namespace warmroot::sim
