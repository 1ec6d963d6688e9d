// What only the region's HTTP door has: signatures, clocks, the operator's control, metadata
// listeners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "bootstrap/base/http.hpp"
#include "tests/region_doors.hpp"

using namespace warmroot;
using testing::HasSubstr;

namespace {

class HttpDoor : public testing::Test {
 protected:
  Result<HttpReply> describe(aws::HttpTransport& transport) {
    const std::string bodies[] = {"Action=DescribeVolumes&Version=2016-11-15"};
    return transport.post(bodies).front();
  }
  HttpReply control(const std::string& method, const std::string& what) {
    HttpRequest request;
    request.method = method;
    request.url = door.server().endpoint() + "/_control/" + what;
    const auto reply = http.perform(request);
    EXPECT_TRUE(reply) << reply.error().message();
    return reply ? *reply : HttpReply{};
  }
  OverHttp door;
  HttpClient http;
};

TEST_F(HttpDoor, a_wrong_secret_is_a_signature_that_does_not_match) {
  auto transport = transport_to(door.server(), "not the secret");
  const auto reply = describe(transport);
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(reply->status, 403);
  EXPECT_THAT(reply->body, HasSubstr("<Code>SignatureDoesNotMatch</Code>"));
  EXPECT_EQ(reply->headers.at("connection"), "close");
}

TEST_F(HttpDoor, a_body_changed_on_the_way_is_refused) {
  HttpRequest request;
  request.method = "POST";
  request.url = door.server().endpoint() + "/";
  request.body = "Action=DescribeVolumes&Version=2016-11-15";
  const auto endpoint = *aws::parse_endpoint(door.server().endpoint());
  aws::SigningRequest signing;
  signing.headers = {{"host", endpoint.host_header()},
                     {"content-type", "application/x-www-form-urlencoded; charset=utf-8"}};
  signing.body = request.body;
  const aws::Credentials keys{
      "AKIDEXAMPLE", aws::Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), aws::Secret()};
  request.headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};
  for (const auto& header : aws::sign(signing, keys, {wall_clock(), "us-east-1", "ec2"}))
    request.headers.push_back(header);
  const auto untouched = http.perform(request);
  ASSERT_TRUE(untouched) << untouched.error().message();
  EXPECT_EQ(untouched->status, 200) << untouched->body;
  request.body += "&MaxResults=100";
  const auto changed = http.perform(request);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->status, 403);
  EXPECT_THAT(changed->body, HasSubstr("SignatureDoesNotMatch"));
}

TEST_F(HttpDoor, a_query_string_is_signed_and_answered_as_well) {
  const auto endpoint = *aws::parse_endpoint(door.server().endpoint());
  aws::SigningRequest signing;
  signing.method = "GET";
  signing.query = {{"Action", "DescribeVolumes"},
                   {"Version", "2016-11-15"},
                   {"Filter.1.Name", "tag:a b"},
                   {"Filter.1.Value.1", "c*"}};
  signing.headers = {{"host", endpoint.host_header()}};
  const aws::Credentials keys{
      "AKIDEXAMPLE", aws::Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), aws::Secret()};
  HttpRequest request;
  request.url = door.server().endpoint() + "/?" + aws::canonical_query(signing.query);
  request.headers = aws::sign(signing, keys, {wall_clock(), "us-east-1", "ec2"});
  const auto reply = http.perform(request);
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(reply->status, 200) << reply->body;
}

TEST_F(HttpDoor, a_clock_that_is_wrong_is_corrected_from_the_answer) {
  auto transport = transport_to(door.server(), "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                                [] { return wall_clock() - 1h; });
  const auto reply = describe(transport);
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(reply->status, 200) << "the Date header of RequestExpired says the time";
}

TEST_F(HttpDoor, user_data_of_sixteen_kib_passes_and_more_does_not) {
  std::mt19937 random(1);
  aws::RunInstances request;
  request.image_id = kBase;
  request.instance_type = "g5.12xlarge";
  request.client_token = "big";
  while (request.user_data.size() < 16384) request.user_data += static_cast<char>(random());
  const auto send = [&] {
    const auto call = aws::encode(aws::Mutation(request));
    return door.ec2().send(std::span(&call, 1)).front();
  };
  const auto made = send();
  ASSERT_TRUE(made) << made.error().message();
  request.client_token = "bigger";
  request.user_data += 'x';
  const auto refused = send();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "InvalidUserData.Malformed");
}

TEST_F(HttpDoor, an_operator_interrupts_and_crashes_instances) {
  aws::RunInstances request;
  request.image_id = kBase;
  request.instance_type = "g5.12xlarge";
  const auto call = aws::encode(aws::Mutation(request));
  const auto made = door.ec2().send(std::span(&call, 1)).front();
  ASSERT_TRUE(made) << made.error().message();
  const auto id = std::get<std::vector<aws::Instance>>(*made).front().instance_id;
  EXPECT_EQ(control("POST", "interrupt?instance=" + id).status, 200);
  EXPECT_EQ(control("POST", "interrupt?instance=i-00000000000000000").status, 404);
  EXPECT_EQ(control("GET", "interrupt?instance=" + id).status, 405);
  const auto state = nlohmann::json::parse(control("GET", "state").body);
  ASSERT_EQ(state["instances"].size(), 1U);
  EXPECT_EQ(state["instances"][0]["instance_id"], id);
  EXPECT_TRUE(state["instances"][0]["spot"]);
  EXPECT_TRUE(state["instances"][0]["interrupted_at"].is_string());
  EXPECT_EQ(state["volumes"].size(), 0U) << "roots of instances are not shown";
  EXPECT_EQ(control("POST", "crash?instance=" + id).status, 200);
  EXPECT_EQ(nlohmann::json::parse(control("GET", "state").body)["instances"][0]["state"],
            "shutting-down");
  EXPECT_EQ(control("POST", "dance").status, 404);
}

TEST_F(HttpDoor, an_instance_reads_its_metadata_from_a_port_of_its_own) {
  aws::RunInstances request;
  request.image_id = kBase;
  request.instance_type = "g5.12xlarge";
  request.user_data = "ticket";
  const auto call = aws::encode(aws::Mutation(request));
  const auto made = door.ec2().send(std::span(&call, 1)).front();
  ASSERT_TRUE(made) << made.error().message();
  const auto id = std::get<std::vector<aws::Instance>>(*made).front().instance_id;
  int port = 0;
  for (int step = 0; step < kMostSteps && port == 0; ++step) {
    door.with(
        [&](sim::Region& region, sim::QueryFront&) { port = region.instance(id)->imds_port; });
    door.pass(kStep);
  }
  ASSERT_NE(port, 0);
  const std::string base = "http://127.0.0.1:" + std::to_string(port) + "/latest/";
  HttpRequest ask;
  ask.method = "PUT";
  ask.url = base + "api/token";
  ask.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "60"}};
  const auto token = http.perform(ask);
  ASSERT_TRUE(token) << token.error().message();
  ASSERT_EQ(token->status, 200);
  HttpRequest read;
  read.url = base + "user-data";
  EXPECT_EQ(http.perform(read)->status, 401);
  read.headers = {{"X-aws-ec2-metadata-token", token->body}};
  EXPECT_EQ(http.perform(read)->body, "ticket");
  read.url = base + "meta-data/instance-id";
  EXPECT_EQ(http.perform(read)->body, id);
}

}  // namespace
