// What an instance of the simulated region reads of itself (IMDSv2), and the region's check of
// signatures.
#include <sstream>

#include "tests/region_fixture.hpp"
#include "tests/sim/imds.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/server_sigv4.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using testing::AllOf;
using testing::HasSubstr;

namespace {

// ---- metadata ----

class ImdsTest : public RegionTest {
 protected:
  ImdsTest()
      : id(spot_instance("&KeyName=operator&UserData=IyEvYmluL3No"
                         "&MetadataOptions.InstanceMetadataTags=enabled"
                         "&TagSpecification.1.ResourceType=instance"
                         "&TagSpecification.1.Tag.1.Key=warmroot:pool"
                         "&TagSpecification.1.Tag.1.Value=imagenet")),
        imds(region, signer, id) {
    token =
        imds.answer("PUT", "/latest/api/token", {{"x-aws-ec2-metadata-token-ttl-seconds", "60"}})
            .body;
  }
  ImdsReply get(const std::string& path) {
    return imds.answer("GET", path, {{"x-aws-ec2-metadata-token", token}});
  }
  std::string id;
  IdentitySigner signer;
  Imds imds;
  std::string token;
};

TEST_F(ImdsTest, nothing_is_read_without_a_valid_token) {
  EXPECT_EQ(imds.answer("GET", "/latest/meta-data/instance-id", {}).status, 401);
  EXPECT_EQ(imds.answer("GET", "/latest/meta-data/", {{"x-aws-ec2-metadata-token", "x"}}).status,
            401);
  EXPECT_EQ(get("/latest/meta-data/instance-id").body, id);
  region.advance_by(61s);
  EXPECT_EQ(get("/latest/meta-data/instance-id").status, 401) << "expired";
  const std::string ttl = "x-aws-ec2-metadata-token-ttl-seconds";
  for (const char* bad : {"", "0", "21601", "ten", "-5"})
    EXPECT_EQ(imds.answer("PUT", "/latest/api/token", {{ttl, bad}}).status, 400) << bad;
  EXPECT_EQ(imds.answer("PUT", "/latest/api/token", {}).status, 400);
  EXPECT_EQ(
      imds.answer("PUT", "/latest/api/token", {{ttl, "60"}, {"x-forwarded-for", "1.2.3.4"}}).status,
      403);
  EXPECT_EQ(imds.answer("POST", "/latest/api/token", {{ttl, "60"}}).status, 405);
}

TEST_F(ImdsTest, the_tree_tells_who_the_instance_is) {
  EXPECT_EQ(get("/latest/meta-data/placement/availability-zone").body, "us-east-1a");
  EXPECT_EQ(get("/latest/meta-data/placement/region").body, "us-east-1");
  EXPECT_EQ(get("/latest/meta-data/instance-life-cycle").body, "spot");
  EXPECT_EQ(get("/latest/meta-data/ami-id").body, kBase);
  EXPECT_EQ(get("/latest/meta-data/local-ipv4").body, region.instance(id)->private_ip);
  EXPECT_EQ(get("/latest/meta-data/public-keys/").body, "0=operator");
  EXPECT_THAT(get("/latest/meta-data/public-keys/0/openssh-key").body, HasSubstr("ssh-ed25519"));
  EXPECT_EQ(get("/latest/meta-data/placement").body,
            "availability-zone\navailability-zone-id\nregion");
  EXPECT_THAT(get("/latest/meta-data/").body, AllOf(HasSubstr("tags/"), HasSubstr("\nmac")));
  EXPECT_EQ(get("/latest/meta-data/colour").status, 404);
  EXPECT_EQ(get("/2021-03-23/meta-data/instance-id").body, id);
  const auto data = get("/latest/user-data");
  EXPECT_EQ(data.body, "#!/bin/sh");
  EXPECT_EQ(data.content_type, "application/octet-stream");
  EXPECT_THAT(get("/latest/dynamic/instance-identity/document").body, HasSubstr(id));
  EXPECT_EQ(get("/latest/dynamic/instance-identity/").body, "document\nrsa2048");
  const auto signature = base64_decode(get("/latest/dynamic/instance-identity/rsa2048").body);
  ASSERT_TRUE(signature);
  EXPECT_THAT(*signature, HasSubstr(get("/latest/dynamic/instance-identity/document").body));
}

TEST_F(ImdsTest, a_crawl_of_the_whole_tree_meets_nothing_that_it_cannot_read) {
  // As cloud-init goes through it: names ending with a slash are directories, "0=NAME" a key.
  std::vector<std::string> directories{"meta-data/", "dynamic/instance-identity/"};
  int leaves = 0;
  while (!directories.empty()) {
    const std::string directory = directories.back();
    directories.pop_back();
    const auto listing = get("/2021-03-23/" + directory);
    ASSERT_EQ(listing.status, 200) << directory;
    std::istringstream lines(listing.body);
    for (std::string name; std::getline(lines, name);) {
      if (name.ends_with("/")) {
        directories.push_back(directory + name);
        continue;
      }
      const auto key = name.find('=');
      const std::string path =
          directory + (key == std::string::npos ? name : name.substr(0, key) + "/openssh-key");
      EXPECT_EQ(get("/2021-03-23/" + path).status, 200) << path;
      ++leaves;
    }
  }
  EXPECT_GT(leaves, 30);
}

TEST_F(ImdsTest, the_network_card_is_found_by_its_address) {
  const std::string mac = get("/latest/meta-data/mac").body;
  EXPECT_EQ(get("/latest/meta-data/network/interfaces/macs/").body, mac + "/");
  EXPECT_EQ(get("/latest/meta-data/network/interfaces/macs/" + mac + "/").body,
            "device-number\nlocal-hostname\nlocal-ipv4s\nmac\nowner-id\nsecurity-groups\n"
            "subnet-id\nsubnet-ipv4-cidr-block\nvpc-id");
  EXPECT_EQ(get("/latest/meta-data/network/interfaces/macs/" + mac + "/subnet-ipv4-cidr-block").body,
            region.subnet(region.instance(id)->subnet_id)->cidr);
}

TEST_F(ImdsTest, tags_are_live_and_the_block_devices_are_those_of_the_launch) {
  EXPECT_EQ(get("/latest/meta-data/tags/instance/warmroot:pool").body, "imagenet");
  EXPECT_EQ(code("Action=CreateTags&ResourceId.1=" + id + "&Tag.1.Key=b&Tag.1.Value="), "");
  EXPECT_EQ(get("/latest/meta-data/tags/instance/b").status, 200);
  EXPECT_EQ(code("Action=CreateTags&ResourceId.1=" + id + "&Tag.1.Key=a/b"),
            "InvalidParameterValue");
  EXPECT_EQ(get("/latest/meta-data/block-device-mapping/").body, "ami\nroot");
  const auto disk = volume();
  region.advance_by(10s);
  EXPECT_EQ(code(attach_form(disk, id)), "");
  region.advance_by(10s);
  EXPECT_EQ(get("/latest/meta-data/block-device-mapping/").body, "ami\nroot");
  EXPECT_EQ(get("/latest/meta-data/block-device-mapping/ami").body, "xvda");
}

TEST_F(ImdsTest, the_spot_notice_appears_when_it_is_given) {
  region.advance_by(10s);
  EXPECT_EQ(get("/latest/meta-data/spot/instance-action").status, 404);
  EXPECT_EQ(get("/latest/meta-data/spot/termination-time").status, 404);
  ASSERT_TRUE(region.interrupt(id));
  EXPECT_EQ(get("/latest/meta-data/spot/instance-action").body,
            "{\"action\":\"terminate\",\"time\":\"2026-01-02T03:06:15Z\"}");
  EXPECT_EQ(get("/latest/meta-data/spot/termination-time").body, "2026-01-02T03:06:15Z");
}

TEST_F(ImdsTest, the_hint_to_rebalance_is_there_once_it_was_given) {
  region.advance_by(10s);
  EXPECT_EQ(get("/latest/meta-data/events/recommendations/rebalance").status, 404);
  ASSERT_TRUE(region.recommend_rebalance(id));
  EXPECT_EQ(get("/latest/meta-data/events/recommendations/rebalance").body,
            "{\"noticeTime\":\"2026-01-02T03:04:15Z\"}");
}

// ---- signatures: known answers of two other implementations ----

TEST(VerifySignature, accepts_the_known_answers_and_nothing_that_differs) {
  const SigningKeys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1"};
  const Instant signed_at = *parse_iso8601("20260102T030405Z");
  const auto request = [](const std::string& host, const std::string& signature) {
    SignedRequest out;
    out.method = "POST";
    out.target = "/";
    out.body =
        "Action=AttachVolume&Version=2016-11-15&VolumeId=vol-0123456789abcdef0&InstanceId="
        "i-0123456789abcdef0&Device=%2Fdev%2Fsdf";
    out.headers = {{"host", host},
                   {"content-type", "application/x-www-form-urlencoded; charset=utf-8"},
                   {"x-amz-date", "20260102T030405Z"},
                   {"user-agent", "not signed"},
                   {"authorization",
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/ec2/aws4_request, "
                    "SignedHeaders=content-type;host;x-amz-date, Signature=" +
                        signature}};
    return out;
  };
  const auto good = request("ec2.us-east-1.amazonaws.com",
                            "a1e80b1485d03c640d1c069c218d75e06668dd30f8f734b95cd8fa6a14c558a2");
  EXPECT_TRUE(verify_signature(good, keys, signed_at));
  EXPECT_TRUE(verify_signature(
      request("127.0.0.1:8080", "791f0153158f458328b4209694aa810a93ae1c4a9ab9af88226236ff51f213f7"),
      keys, signed_at));
  const auto refused_as = [&](const SignedRequest& asked, Instant now) {
    const auto verified = verify_signature(asked, keys, now);
    return verified ? std::string() : verified.error().code;
  };
  EXPECT_EQ(refused_as(good, signed_at + 15min), "");
  EXPECT_EQ(refused_as(good, signed_at + 15min + 1ms), "RequestExpired");
  EXPECT_EQ(refused_as(good, signed_at - 16min), "RequestExpired");
  auto changed = good;
  changed.body += "&Force=true";
  EXPECT_EQ(refused_as(changed, signed_at), "SignatureDoesNotMatch");
  changed = good;
  changed.headers[0].second = "localhost:1";
  EXPECT_EQ(refused_as(changed, signed_at), "SignatureDoesNotMatch");
  changed = good;
  changed.headers.emplace_back("x-amz-security-token", "unsigned");
  EXPECT_EQ(refused_as(changed, signed_at), "SignatureDoesNotMatch");
  changed = good;
  changed.headers.pop_back();
  EXPECT_EQ(refused_as(changed, signed_at), "MissingAuthenticationToken");
  changed = good;
  changed.headers.back().second = "Basic abc";
  EXPECT_EQ(refused_as(changed, signed_at), "IncompleteSignature");
  changed = good;
  changed.headers.back().second.replace(changed.headers.back().second.find("AKIDEXAMPLE"), 11,
                                        "AKIDUNKNOWN");
  EXPECT_EQ(refused_as(changed, signed_at), "AuthFailure");
}

}  // namespace
