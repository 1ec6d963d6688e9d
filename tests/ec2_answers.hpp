// Golden files of the EC2 codec (tests/golden/ec2), and answers made of them.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "manager/aws/ec2_codec.hpp"

namespace warmroot::aws {

inline std::string golden_path(const std::string& name) {
  return std::string(WARMROOT_GOLDEN_DIR) + "/ec2/" + name;
}

inline std::string read_golden(const std::string& name) {
  std::ifstream file(golden_path(name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline HttpReply xml_reply(std::string body, int status = 200) {
  return {status, {{"content-type", "text/xml;charset=UTF-8"}}, std::move(body)};
}

inline HttpReply answer(const std::string& action) {
  const std::string text = read_golden(action + ".xml");
  EXPECT_FALSE(text.empty()) << golden_path(action + ".xml");
  return xml_reply(text);
}

inline HttpReply refusal(const std::string& code, int status = 400,
                         const std::string& message = "no.") {
  return xml_reply("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>" +
                       code + "</Code><Message>" + message +
                       "</Message></Error></Errors><RequestID>req-1</RequestID></Response>",
                   status);
}

inline Instant at(const char* text) {
  return *parse_iso8601(text);
}

/// What every decoder makes of a reply, as an error (or none).
inline std::optional<Error> error_of(const std::string& action, const HttpReply& reply) {
  const auto take = [](const auto& result) -> std::optional<Error> {
    if (result) return std::nullopt;
    return result.error();
  };
  if (action == "DescribeVolumes") return take(decode_volumes(reply));
  if (action == "DescribeInstances") return take(decode_instances(reply));
  if (action == "DescribeInstanceStatus") return take(decode_instance_status(reply));
  if (action == "DescribeSnapshots") return take(decode_snapshots(reply));
  if (action == "DescribeImages") return take(decode_images(reply));
  if (action == "DescribeAvailabilityZones") return take(decode_availability_zones(reply));
  if (action == "DescribeSubnets") return take(decode_subnets(reply));
  if (action == "DescribeSpotPriceHistory") return take(decode_spot_prices(reply));
  if (action == "DescribeInstanceTypeOfferings") return take(decode_instance_type_offerings(reply));
  if (action == "DescribeInstanceTypes") return take(decode_instance_types(reply));
  if (action == "DescribeVolumeStatus") return take(decode_volume_status(reply));
  if (action == "DescribeFastSnapshotRestores") return take(decode_fast_snapshot_restores(reply));
  if (action == "DescribeLaunchTemplates") return take(decode_launch_templates(reply));
  if (action == "GetSpotPlacementScores") return take(decode_spot_placement_scores(reply));
  return take(decode_answer(action, reply));
}

}  // namespace warmroot::aws
