// The doctor on the simulated region: facts of a healthy account, and lines to look for words in.
// Every line that a test gets is seen to say what to do, unless it is ok.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "manager/aws/ec2_client.hpp"
#include "manager/doctor.hpp"
#include "tests/fleet_harness.hpp"
#include "tests/sim/account_services.hpp"

namespace warmroot::manager {

/// The real client, with types that the region has no listing of.
class TypedEc2 : public aws::Ec2Client {
 public:
  using aws::Ec2Client::Ec2Client;
  Result<aws::Page<aws::InstanceType>> describe_instance_types(
      const aws::DescribeRequest&) override {
    return aws::Page<aws::InstanceType>{types, ""};
  }
  Result<aws::Page<aws::InstanceTypeOffering>> describe_instance_type_offerings(
      const aws::DescribeRequest&) override {
    return aws::Page<aws::InstanceTypeOffering>{offerings, ""};
  }

  std::vector<aws::InstanceType> types{{"g5.xlarge", {"x86_64"}, "nitro", 4, false, 28}};
  std::vector<aws::InstanceTypeOffering> offerings{{"g5.xlarge", "us-east-1a"}};
};

struct DoctorTest : ::testing::Test {
  sim::NoHardware hardware;
  sim::Region region{
      sim::builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"}), {}, hardware, kFleetStart};
  sim::QueryFront front{region};
  sim::RegionTransport door{front};
  TypedEc2 ec2{door, [this](Milliseconds wait) { region.advance_by(wait); }, [] { return 0.5; }};
  core::Desired desired{"research", {pool_spec("p", 2, 2)}};
  std::string account = "111122223333";
  std::optional<Milliseconds> skew = Milliseconds{300};
  Result<std::string> user_data = std::string("#!/bin/sh\n");

  sim::AccountServices services{region};
  bool asks_account = true;
  std::vector<std::string> keys_asked;

  core::PoolSpec& pool() { return desired.pools.front(); }
  std::vector<Finding> findings() { return with_remedies(examine(ec2, facts())); }
  DoctorFacts facts() {
    DoctorFacts facts{desired, account, skew, [this](const core::PoolSpec&) { return user_data; },
                      region.now()};
    if (asks_account) {
      facts.quota = [this](const std::string& service, const std::string& code) {
        return aws::decode_service_quota(asked(aws::encode_get_service_quota(service, code)));
      };
      facts.key = [this](const std::string& key) {
        keys_asked.push_back(key);
        return aws::decode_key(asked(aws::encode_describe_key(key)));
      };
    }
    return facts;
  }
  HttpReply asked(const aws::JsonCall& call) {
    const auto reply = services.answer(call.target, call.body);
    HttpReply out{reply.status, {}, reply.body};
    if (!reply.code.empty()) out.headers["x-amzn-errortype"] = reply.code;
    return out;
  }
  /// The lines as they are; each that is not ok says what to do.
  static std::vector<Finding> with_remedies(std::vector<Finding> found) {
    for (const Finding& each : found) {
      EXPECT_EQ(each.remedy.empty(), each.verdict == Verdict::ok) << each.sentence();
      EXPECT_THAT(each.sentence(), ::testing::EndsWith(each.remedy));
    }
    return found;
  }
  /// "wrong subnet: ..." a line.
  static std::string lines(const std::vector<Finding>& found) {
    std::string text;
    for (const Finding& each : found)
      text +=
          std::string(to_string(each.verdict)) + " " + each.check + ": " + each.sentence() + "\n";
    return text;
  }
  /// Exactly one kind of thing is wrong, and it says this.
  void expect_wrong(const std::string& check, const std::string& words) {
    const auto found = findings();
    EXPECT_FALSE(healthy(found)) << words;
    EXPECT_THAT(lines(found), ::testing::HasSubstr("wrong " + check + ": "));
    EXPECT_THAT(lines(found), ::testing::HasSubstr(words));
    for (const Finding& each : found) {
      if (each.verdict == Verdict::wrong) {
        EXPECT_EQ(each.check, check) << each.sentence();
      }
    }
  }
};

}  // namespace warmroot::manager
