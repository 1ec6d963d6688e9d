// A flood of forged hellos and reports: each is refused and counted, and none writes a byte into
// the ledger or wakes the loop, so that who is genuine is heard as ever.
#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "manager/ledger.hpp"
#include "manager/ledger_keys.hpp"
#include "manager/reports.hpp"
#include "tests/sim/instance_identity.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

using nlohmann::json;

constexpr const char* kInstance = "i-0123456789abcdef0";
constexpr const char* kJsonType = "application/json";
constexpr int kFloods = 4;
constexpr int kEach = 250;

httplib::Headers headers(const std::string& instance_id, int sequence,
                         const std::string& signature) {
  return {{"X-Warmroot-Instance", instance_id},
          {"X-Warmroot-Sequence", std::to_string(sequence)},
          {"X-Warmroot-Signature", signature}};
}

std::string report_body(const std::string& stage) {
  return json{{"version", 1}, {"instance_id", kInstance}, {"stage", stage}}.dump();
}

std::string hello_body(const std::string& identity) {
  return json{{"version", 1},
              {"instance_id", kInstance},
              {"deployment", "research"},
              {"pool", "imagenet"},
              {"identity", identity}}
      .dump();
}

class ReportFlood : public testing::Test {
 protected:
  ReportFlood() {
    const Instant now{};
    const auto ledger = Ledger::open(path_, {"research", "us-east-1"}, now);
    CHECK(ledger.has_value());
    keys_ = std::make_unique<LedgerKeys>(*ledger, [] { return Instant{}; });
    board_.set_known("research", {{kInstance, {"imagenet", "imagenet-0", ""}}});
    AdmissionRules rules{*IdentityCertificates::parse(region_.certificate()), "111122223333",
                         "us-east-1"};
    server_ =
        *ReportServer::start({"127.0.0.1", 0}, rules, board_, *keys_, program_, hot_lists_, {});
  }

  /// Every way to forge, in turn.
  static httplib::Result forge(httplib::Client& client, int number, const std::string& identity) {
    const std::string body = report_body("released") + std::string(number % 50 * 4096, ' ');
    const std::string wrong(64, '0');
    switch (number % 5) {
      case 0:
        return client.Post("/v1/report", headers(kInstance, number, wrong), body, kJsonType);
      case 1:
        return client.Post("/v1/report", headers("i-0000000000000000f", number, wrong), body,
                           kJsonType);
      case 2:
        return client.Post("/v1/report", {{"X-Warmroot-Instance", kInstance}}, "{}", kJsonType);
      case 3:
        return client.Post("/v1/hello", hello_body(identity), kJsonType);
      default:
        return client.Post("/v1/hello", hello_body(""), kJsonType);
    }
  }

  /// `taken` counts what was not refused.
  void flood(std::atomic<int>& taken) {
    httplib::Client client("127.0.0.1", server_->port());
    client.set_keep_alive(true);
    client.set_tcp_nodelay(true);
    const std::string identity = mallory_.sign(document_);
    for (int i = 0; i < kEach; ++i) {
      const auto reply = forge(client, i, identity);
      taken += !reply || reply->status < 400;
    }
  }

  const TemporaryDirectory folder_;
  const std::string path_ = folder_.path() + "/ledger.sqlite";
  sim::IdentitySigner region_, mallory_;
  const std::string document_ = json{
      {"instanceId", kInstance},
      {"accountId", "111122223333"},
      {"region", "us-east-1"},
      {"privateIp", "127.0.0.1"}}.dump();
  ReportBoard board_;
  std::unique_ptr<LedgerKeys> keys_;
  BootstrapProgram program_;
  HotLists hot_lists_{folder_.path() + "/hot-lists"};
  std::unique_ptr<ReportServer> server_;
};

TEST_F(ReportFlood, forged_words_wake_nobody_write_nothing_and_keep_nobody_out) {
  httplib::Client genuine("127.0.0.1", server_->port());
  genuine.set_tcp_nodelay(true);
  const auto hello = genuine.Post("/v1/hello", hello_body(region_.sign(document_)), kJsonType);
  ASSERT_EQ(hello->status, 200) << hello->body;
  const Secret key(json::parse(hello->body)["key"].get<std::string>());
  while (board_.wait(Milliseconds{0})) continue;
  auto watcher = *Database::open(path_);
  const auto before = *watcher.version();

  std::atomic<int> taken = 0;
  std::vector<std::jthread> floods;
  for (int i = 0; i < kFloods; ++i) floods.emplace_back([&] { flood(taken); });
  floods.clear();
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(*watcher.version(), before) << "something was written";
  EXPECT_FALSE(board_.wait(Milliseconds{0})) << "the loop was woken";
  EXPECT_TRUE(board_.take_knockers().empty());
  const auto counts = board_.refusals.all();
  EXPECT_EQ(counts.at("report forged"), 2u * kFloods * kEach / 5);
  EXPECT_EQ(counts.at("report malformed"), 1u * kFloods * kEach / 5);
  EXPECT_EQ(counts.at("hello forged"), 1u * kFloods * kEach / 5);
  EXPECT_EQ(counts.at("hello unsigned"), 1u * kFloods * kEach / 5);

  for (int i = 0; i < kFloods; ++i) floods.emplace_back([&] { flood(taken); });
  for (int sequence = 1; sequence <= 20; ++sequence) {
    const std::string body = report_body("mounted");
    const auto reply = genuine.Post(
        "/v1/report", headers(kInstance, sequence, report_signature(key, sequence, body)), body,
        kJsonType);
    ASSERT_TRUE(reply) << to_string(reply.error());
    EXPECT_EQ(reply->status, 200) << reply->body;
  }
  EXPECT_TRUE(board_.wait(Milliseconds{0})) << "a new stage is news";
  floods.clear();
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(board_.snapshot().at(kInstance).stage, NodeStage::mounted);
}

}  // namespace
}  // namespace warmroot::manager
