// HttpTransport against a small HTTP server on loopback: what is really sent (libcurl adds headers
// of its own), and what becomes of replies that are late, never come, or complain about clock and
// keys.
#include "manager/aws/http_transport.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "manager/listening.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;
using testing::Not;

namespace {

const Credentials kOldKeys{"AKOLD", Secret("old-secret"), Secret("old-token")};
const Credentials kNewKeys{"AKNEW", Secret("new-secret"), Secret()};
const Instant kNow = *parse_iso8601("2026-01-02T03:04:05Z");

std::string refusal(const std::string& code) {
  return "<Response><Errors><Error><Code>" + code +
         "</Code><Message>No.</Message></Error></Errors>"
         "<RequestID>r</RequestID></Response>";
}

const std::string kVolumes = "<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>";

/// A server that answers by `handler` and keeps the requests.
class Server {
 public:
  using Handler = std::function<void(int number, const httplib::Request&, httplib::Response&)>;

  explicit Server(Handler handler) {
    server_.Post("/",
                 [this, handler](const httplib::Request& request, httplib::Response& response) {
                   int number = 0;
                   {
                     const std::lock_guard lock(mutex_);
                     requests_.push_back(request);
                     number = static_cast<int>(requests_.size());
                   }
                   handler(number, request, response);
                 });
    // One thread a connection, and as many as the transport opens (64): a kept-alive one holds its
    // thread for seconds, and one more would wait for it.
    server_.new_task_queue = [] { return new httplib::ThreadPool(72); };
    port_ = manager::bind_and_listen(server_, "127.0.0.1", 0);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(Milliseconds(1));
  }
  ~Server() {
    server_.stop();
    thread_.join();
  }
  int port() const { return port_; }
  std::vector<httplib::Request> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  httplib::Server server_;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<httplib::Request> requests_;
  int port_ = 0;
};

/// Checks a request as EC2 would: over the headers that SignedHeaders lists, as they arrived.
bool signature_is_right(const httplib::Request& request, const Credentials& keys, Instant time) {
  const std::string authorization = request.get_header_value("Authorization");
  const std::size_t start = authorization.find("SignedHeaders=") + 14;
  std::string names = authorization.substr(start, authorization.find(',', start) - start);
  SigningRequest signing{request.method, request.path, {}, {}, request.body};
  std::size_t end = 0;
  for (names += ';'; (end = names.find(';')) != std::string::npos; names.erase(0, end + 1))
    signing.headers.emplace_back(names.substr(0, end),
                                 request.get_header_value(names.substr(0, end).c_str()));
  const SigningScope scope{time, "eu-west-1", "ec2"};
  const std::string expected = signature(signing_key(keys.secret_access_key, scope),
                                         string_to_sign(scope, canonical_request(signing).text));
  return authorization.find("Credential=" + keys.access_key_id + "/") != std::string::npos &&
         authorization.ends_with("Signature=" + expected);
}

HttpTransport transport_to(int port, CredentialSource source,
                           Milliseconds timeout = Milliseconds(10'000)) {
  HttpTransportSettings settings;
  settings.endpoint = *parse_endpoint("http://127.0.0.1:" + std::to_string(port));
  settings.region = "eu-west-1";
  settings.timeout = timeout;
  return HttpTransport(settings, std::move(source), [] { return kNow; });
}

CredentialSource always(Credentials keys) {
  return [keys]() -> Result<Credentials> { return keys; };
}

Ec2Client client_of(Transport& transport) {
  return Ec2Client(
      transport, [](Milliseconds) {}, [] { return 0.0; });
}

const std::vector<std::string> kBody = {
    "Action=DescribeVolumes&Version=2016-11-15&Filter.1.Name=a%20b"};

}  // namespace

TEST(HttpTransport, what_arrives_carries_a_right_signature_over_host_type_date_and_token) {
  Server server([](int, const httplib::Request&, httplib::Response& response) {
    response.set_content(kVolumes, "text/xml;charset=UTF-8");
  });
  HttpTransport transport = transport_to(server.port(), always(kOldKeys));
  const auto replies = transport.post(kBody);
  ASSERT_TRUE(replies.at(0)) << replies[0].error().message();
  EXPECT_EQ(replies[0]->status, 200);
  const httplib::Request request = server.requests().at(0);
  EXPECT_EQ(request.body, kBody[0]);
  EXPECT_EQ(request.get_header_value("Host"), "127.0.0.1:" + std::to_string(server.port()));
  EXPECT_EQ(request.get_header_value("Content-Type"),
            "application/x-www-form-urlencoded; charset=utf-8");
  EXPECT_EQ(request.get_header_value("x-amz-date"), "20260102T030405Z");
  EXPECT_EQ(request.get_header_value("x-amz-security-token"), "old-token");
  EXPECT_THAT(request.get_header_value("Authorization"),
              HasSubstr("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,"));
  EXPECT_TRUE(signature_is_right(request, kOldKeys, kNow));
  EXPECT_FALSE(signature_is_right(request, kNewKeys, kNow))
      << "the check itself must be able to fail";
}

TEST(HttpTransport, several_bodies_are_posted_together_and_answered_in_order) {
  Server server([](int, const httplib::Request& request, httplib::Response& response) {
    response.set_content(request.body, "text/plain");
  });
  HttpTransport transport = transport_to(server.port(), always(kNewKeys));
  std::vector<std::string> bodies;
  for (int i = 0; i < 70; ++i) bodies.push_back("Action=X&n=" + std::to_string(i));
  const auto replies = transport.post(bodies);
  ASSERT_EQ(replies.size(), bodies.size());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    ASSERT_TRUE(replies[i]) << replies[i].error().message();
    EXPECT_EQ(replies[i]->body, bodies[i]);
  }
}

TEST(HttpTransport, a_clock_that_is_wrong_is_corrected_once_from_the_date_header) {
  for (const char* code : {"RequestExpired", "AuthFailure", "SignatureDoesNotMatch"}) {
    SCOPED_TRACE(code);
    Server server([code](int number, const httplib::Request&, httplib::Response& response) {
      if (number > 1) return response.set_content(kVolumes, "text/xml");
      response.status = 400;
      response.set_header("Date", "Fri, 02 Jan 2026 04:04:05 GMT");
      response.set_content(refusal(code), "text/xml");
    });
    HttpTransport transport = transport_to(server.port(), always(kNewKeys));
    EXPECT_EQ(transport.post(kBody).at(0)->status, 200);
    EXPECT_EQ(transport.post(kBody).at(0)->status, 200);
    const auto requests = server.requests();
    ASSERT_EQ(requests.size(), 3u);
    EXPECT_EQ(requests[1].get_header_value("x-amz-date"), "20260102T040405Z");
    EXPECT_EQ(requests[2].get_header_value("x-amz-date"), "20260102T040405Z") << "it stays so";
    EXPECT_TRUE(signature_is_right(requests[1], kNewKeys, kNow + std::chrono::hours(1)));
  }
}

TEST(HttpTransport, expired_credentials_are_read_anew_and_only_what_expired_is_sent_again) {
  Server server([](int, const httplib::Request& request, httplib::Response& response) {
    const bool is_new =
        request.get_header_value("Authorization").find("AKNEW") != std::string::npos;
    if (is_new || request.body == "Action=Fine") return response.set_content("ok", "text/plain");
    response.status = 400;
    response.set_content(refusal("ExpiredToken"), "text/xml");
  });
  int looks = 0;
  HttpTransport transport = transport_to(server.port(), [&looks]() -> Result<Credentials> {
    return ++looks == 1 ? kOldKeys : kNewKeys;
  });
  const std::vector<std::string> bodies = {"Action=Expired", "Action=Fine"};
  const auto replies = transport.post(bodies);
  EXPECT_EQ(replies.at(0)->body, "ok");
  EXPECT_EQ(replies.at(1)->body, "ok");
  EXPECT_EQ(server.requests().size(), 3u);
  EXPECT_EQ(looks, 2);
}

TEST(HttpTransport, keys_that_have_expired_are_read_anew_although_the_clock_is_wrong_too) {
  Server server([](int, const httplib::Request& request, httplib::Response& response) {
    response.set_header("Date", "Fri, 02 Jan 2026 03:05:15 GMT");  // 70 s on
    if (request.get_header_value("Authorization").find("AKOLD") != std::string::npos) {
      response.status = 400;
      return response.set_content(refusal("ExpiredToken"), "text/xml");
    }
    response.set_content(kVolumes, "text/xml");
  });
  Credentials keys = kOldKeys;
  HttpTransport transport = transport_to(
      server.port(), [&]() -> Result<Credentials> { return std::exchange(keys, kNewKeys); });
  const auto replies = transport.post(kBody);
  ASSERT_TRUE(replies.at(0));
  EXPECT_EQ(replies.at(0)->status, 200) << replies.at(0)->body;
}

TEST(HttpTransport, credentials_that_stay_expired_are_refused_after_one_look) {
  Server server([](int, const httplib::Request&, httplib::Response& response) {
    response.status = 400;
    response.set_content(refusal("ExpiredToken"), "text/xml");
  });
  HttpTransport transport = transport_to(server.port(), always(kOldKeys));
  Ec2Client client = client_of(transport);
  const auto page = client.describe_volumes({});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().kind, ErrorKind::unauthorised);
  EXPECT_THAT(page.error().message(), HasSubstr("Renew the temporary credentials"));
  EXPECT_THAT(page.error().message(), Not(HasSubstr("old-secret")));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpTransport, no_credentials_at_all_send_nothing) {
  HttpTransport transport = transport_to(1, []() -> Result<Credentials> {
    return fail(ErrorKind::unauthorised, "no AWS credentials");
  });
  const auto replies = transport.post(kBody);
  EXPECT_EQ(replies.at(0).error().kind, ErrorKind::unauthorised);
}

TEST(HttpTransport, a_read_survives_a_503_and_a_throttled_mutation_is_told_at_once) {
  Server server([](int number, const httplib::Request& request, httplib::Response& response) {
    if (number % 2 == 1) {
      response.status = 503;
      return response.set_content(refusal("RequestLimitExceeded"), "text/xml");
    }
    const bool is_delete = request.body.find("DeleteVolume") != std::string::npos;
    response.set_content(
        is_delete ? "<DeleteVolumeResponse><return>true</return></DeleteVolumeResponse>" : kVolumes,
        "text/xml");
  });
  HttpTransport transport = transport_to(server.port(), always(kNewKeys));
  Ec2Client client = client_of(transport);
  EXPECT_TRUE(client.describe_volumes({}));
  const EncodedCall call = encode(DeleteVolume{"vol-1"});
  const auto throttled = client.send({&call, 1}).at(0);
  ASSERT_FALSE(throttled) << "its turn comes with a later tick";
  EXPECT_EQ(throttled.error().code, "RequestLimitExceeded");
  EXPECT_TRUE(client.send({&call, 1}).at(0));
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(HttpTransport, a_mutation_whose_answer_is_late_has_an_unknown_outcome) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  Server server([released](int, const httplib::Request&, httplib::Response&) { released.wait(); });
  HttpTransport transport = transport_to(server.port(), always(kNewKeys), Milliseconds(300));
  Ec2Client client = client_of(transport);
  const EncodedCall call = encode(AttachVolume{"vol-1", "i-2", "/dev/sdf"});
  const auto results = client.send({&call, 1});
  release.set_value();
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().kind, ErrorKind::unknown_outcome) << results[0].error().message();
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpTransport, an_answer_without_end_is_cut_off_and_not_asked_for_again) {
  Server server([](int, const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("text/xml", [](std::size_t, httplib::DataSink& sink) {
      const std::string chunk(1 << 16, ' ');
      return sink.write(chunk.data(), chunk.size());
    });
  });
  HttpTransport transport = transport_to(server.port(), always(kOldKeys));
  Ec2Client client = client_of(transport);
  const auto page = client.describe_volumes({});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().kind, ErrorKind::broken);
  EXPECT_THAT(page.error().context, HasSubstr("the answer is larger than 32 MiB"));
  EXPECT_EQ(server.requests().size(), 1U);
  const EncodedCall call = encode(DeleteVolume{"vol-1"});
  EXPECT_EQ(client.send({&call, 1}).front().error().kind, ErrorKind::unknown_outcome);
}

// ---- what libcurl does by itself ----

/// Answers the first request, reads the second one and closes without a byte, as a balancer does
/// that is drained.
class Drained {
 public:
  explicit Drained(bool leaves) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    CHECK(::listen(listener_, 4) == 0);
    CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this, leaves] { serve(leaves); });
  }
  ~Drained() {
    thread_.join();
    if (listener_ >= 0) ::close(listener_);
  }
  int seconds() const { return seconds_; }
  int port = 0;

 private:
  /// False: no whole request came.
  static bool read_request(int peer) {
    std::string text;
    char part[4096];
    while (!text.ends_with("=body")) {
      const auto got = ::read(peer, part, sizeof part);
      if (got <= 0) return false;
      text.append(part, static_cast<std::size_t>(got));
    }
    return true;
  }
  void serve(bool leaves) {
    const int first = ::accept(listener_, nullptr, nullptr);
    CHECK(read_request(first));
    constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    CHECK(::write(first, kAnswer.data(), kAnswer.size()) == static_cast<ssize_t>(kAnswer.size()));
    seconds_ += read_request(first) ? 1 : 0;
    if (leaves) ::close(std::exchange(listener_, -1));
    ::close(first);
    pollfd again{listener_, POLLIN, 0};
    while (!leaves && ::poll(&again, 1, 300) == 1) {
      const int next = ::accept(listener_, nullptr, nullptr);
      seconds_ += read_request(next) ? 1 : 0;
      ::close(next);
    }
  }

  int listener_ = -1;
  std::atomic<int> seconds_{0};
  std::thread thread_;
};

TEST(HttpClient, a_request_that_the_peer_has_read_is_never_sent_again_by_libcurl) {
  for (const bool leaves : {false, true}) {
    Drained server(leaves);
    HttpClient client;
    HttpRequest request;
    request.method = "POST";
    request.url = "http://127.0.0.1:" + std::to_string(server.port) + "/";
    request.body = "first=body";
    ASSERT_TRUE(client.perform(request));
    request.body = "second=body";
    const auto reply = client.perform(request);
    ASSERT_FALSE(reply) << "nobody answered it";
    EXPECT_EQ(reply.error().kind, ErrorKind::unknown_outcome) << reply.error().message();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(server.seconds(), 1) << (leaves ? "gone" : "still there");
  }
}

TEST(HttpTransport, a_refused_connection_is_retry_later) {
  // Bound but not listening: nobody else gets the port, and connecting to it is refused.
  const UniqueFd bound(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(bound.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::getsockname(bound.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const int port = ntohs(address.sin_port);
  HttpTransport transport = transport_to(port, always(kNewKeys));
  Ec2Client client = client_of(transport);
  const EncodedCall call = encode(DeleteVolume{"vol-1"});
  const auto results = client.send({&call, 1});
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().kind, ErrorKind::retry_later) << results[0].error().message();
  EXPECT_EQ(client.describe_volumes({}).error().kind, ErrorKind::retry_later);
}

TEST(HttpDate, both_ends_of_the_format) {
  EXPECT_EQ(parse_http_date("Fri, 02 Jan 2026 03:04:05 GMT"), kNow);
  for (const char* bad : {"", "Fri, 02 Jan 2026 03:04:05", "2026-01-02T03:04:05Z", "Fri, 02 Jan"})
    EXPECT_EQ(parse_http_date(bad), std::nullopt) << bad;
}
