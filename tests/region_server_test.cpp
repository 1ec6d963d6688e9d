// What only the region's HTTP door has: signatures, clocks, the operator's control, metadata
// listeners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "tests/region_doors.hpp"
#include "tests/sim/server_relay.hpp"

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
  auto transport = transport_to(door.server().endpoint(), "not the secret");
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
  auto transport = transport_to(door.server().endpoint(), "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
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

TEST_F(HttpDoor, faults_and_capacity_are_set_from_outside) {
  EXPECT_EQ(control("POST", "fault?action=DescribeVolumes&kind=internal").status, 200);
  EXPECT_EQ(control("POST", "fault?kind=mood").status, 400);
  EXPECT_EQ(control("POST", "fault?kind=refused").status, 400) << "which code?";
  EXPECT_EQ(control("POST", "knob?name=failing_creates&value=1").status, 200);
  EXPECT_EQ(control("POST", "knob?name=ami_devices&value=sdf,sdg").status, 200);
  EXPECT_EQ(control("POST", "knob?name=weather").status, 400);
  EXPECT_EQ(control("POST", "replicas?ages_ms=0,3000").status, 200);
  EXPECT_EQ(control("POST", "replicas").status, 200);
  EXPECT_EQ(control("POST", "zone?zone=us-east-1a&state=impaired").status, 200);
  EXPECT_EQ(control("POST", "zone?zone=us-east-1z&state=impaired").status, 404);
  EXPECT_EQ(control("POST", "end?instance=i-00000000000000000").status, 404);
  door.server().with([](sim::Region& region, sim::QueryFront&) {
    EXPECT_EQ(region.knobs.failing_creates, 1);
    EXPECT_EQ(region.knobs.ami_devices, (std::set<std::string>{"sdf", "sdg"}));
    EXPECT_TRUE(region.zone_impaired("us-east-1a"));
  });
  auto transport = transport_to(door.server().endpoint(), "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
  EXPECT_EQ(describe(transport)->status, 500);
  EXPECT_EQ(describe(transport)->status, 200);
  EXPECT_EQ(control("POST", "capacity?type=g5.12xlarge&zone=us-east-1a&count=0").status, 200);
  EXPECT_EQ(control("POST", "capacity?type=g5.12xlarge&zone=nowhere&count=0").status, 400);
  aws::RunInstances request;
  request.image_id = kBase;
  request.instance_type = "g5.12xlarge";
  request.availability_zone = kZone;
  const auto call = aws::encode(aws::Mutation(request));
  const auto refused = door.ec2().send(std::span(&call, 1)).front();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "InsufficientInstanceCapacity");
}

TEST_F(HttpDoor, a_relay_brings_the_whole_answer_although_its_input_has_ended) {
  int to_relay[2], from_relay[2];
  ASSERT_EQ(::pipe(to_relay), 0);
  ASSERT_EQ(::pipe(from_relay), 0);
  const auto port = static_cast<std::uint16_t>(door.server().port());
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(to_relay[0], STDIN_FILENO);
    ::dup2(from_relay[1], STDOUT_FILENO);
    for (const int end : {to_relay[0], to_relay[1], from_relay[0], from_relay[1]}) ::close(end);
    ::_exit(sim::relay(port, "") ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  ::close(to_relay[0]);
  ::close(from_relay[1]);
  const UniqueFd answers(from_relay[0]);
  const std::string request =
      "GET /_control/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(::write(to_relay[1], request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  ::close(to_relay[1]);
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::read(answers.get(), bytes, sizeof bytes)) > 0;)
    answer.append(bytes, static_cast<std::size_t>(got));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(answer, HasSubstr("\"volumes\": []"));
}

TEST_F(HttpDoor, a_relay_comes_from_the_address_that_it_is_told) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(sim::relay(port, "127.10.0.7") ? 0 : 1);
  ASSERT_GT(child, 0);
  const timeval patience{60, 0};
  ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const UniqueFd peer(::accept(listener.get(), reinterpret_cast<sockaddr*>(&address), &size));
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  EXPECT_STREQ(text, "127.10.0.7");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(sim::relay(port, "192.0.2.1")) << "no address of this machine";
  EXPECT_FALSE(sim::relay(port, "here"));
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
  EXPECT_EQ(control("POST", "power_off?instance=" + id).status, 409) << "it does not run yet";
  EXPECT_EQ(control("POST", "power_off?instance=i-00000000000000000").status, 404);
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
