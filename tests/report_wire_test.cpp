// Reports over HTTP to a manager that is played by a server on loopback: it does not know the
// instance at first, and checks every signature.
#include <gmock/gmock.h>
#include <httplib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bootstrap/files.hpp"
#include "bootstrap/report.hpp"
#include "bootstrap/report_sign.hpp"
#include "tests/loopback_server.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;

constexpr char kKeyHex[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
constexpr char kOfAnother[] = "volume vol-1 is another instance's by now";

/// A manager that answers 404 to the first hellos, gives the key once, and refuses what is not
/// signed or not newer.
class Manager : public testing::Test {
 protected:
  void SetUp() override {
    std::remove(key_file_.c_str());
    server_.http.Post("/v1/hello",
                      [this](const httplib::Request& request, httplib::Response& reply) {
                        const std::lock_guard lock(mutex_);
                        const int hello = ++hellos_;
                        hello_ = request.body;
                        if (hello <= unknown_hellos_)
                          reply.status = 404;
                        else if (hello > unknown_hellos_ + 1 && !forgot_keys_.exchange(false))
                          reply.status = 409;
                        else
                          reply.set_content(std::string(R"({"key":")") + key_hex_ +
                                                R"(","node":"imagenet-0","volume_id":null})",
                                            "application/json");
                      });
    server_.http.Post("/v1/report", [this](const httplib::Request& request,
                                           httplib::Response& reply) {
      const std::lock_guard lock(mutex_);
      const std::uint64_t sequence = std::stoull(request.get_header_value("X-Warmroot-Sequence"));
      if (request.get_header_value("X-Warmroot-Signature") !=
          sign_report(*parse_key(key_hex_), sequence, request.body))
        reply.status = 401;
      else if (sequence <= last_sequence_)
        reply.status = 409;
      else if (failures_ > 0 && failures_--)
        reply.status = 503;
      else if (volume_of_another_) {
        reply.status = 410;
        reply.set_content(std::string(R"({"error":")") + kOfAnother + "\"" + beside_ + "}",
                          "application/json");
      } else {
        last_sequence_ = sequence;
        const auto at = request.body.find("\"stage\":\"");
        stages_.push_back(request.body.substr(at + 9, request.body.find('"', at + 9) - at - 9));
        if (request.body.find(R"("reason":"unclean_beyond_repair")") != std::string::npos)
          ++beyond_repair_;
        reply.set_content(R"({"wishes":{"drain":true,"volume_id":"vol-1"}})", "application/json");
        return;
      }
      ++refused_;
    });
    server_.start();
    book_.update([](Status& status) { status.instance_id = "i-1"; });
  }
  void TearDown() override { std::remove(key_file_.c_str()); }
  std::unique_ptr<Reporter> reporter() {
    return std::make_unique<Reporter>(
        book_, server_.url(), key_file_, [this] { return identity_; },
        [this](const Wishes& wishes) {
          const std::lock_guard lock(mutex_);
          drain_ = drain_ || wishes.drain;
          if (wishes.volume_id) volume_ = *wishes.volume_id;
          no_volume_ = wishes.no_volume.value_or("");
        });
  }

  const std::string key_file_ = "/tmp/warmroot-key-" + std::to_string(::getpid());
  std::mutex mutex_;
  std::atomic<int> hellos_ = 0;
  std::atomic<bool> forgot_keys_ = false;
  std::string hello_;  ///< the last one's body
  Result<std::optional<std::string>> identity_ = std::nullopt;
  std::string key_hex_ = kKeyHex;
  int unknown_hellos_ = 0, failures_ = 0, refused_ = 0, beyond_repair_ = 0;
  std::uint64_t last_sequence_ = 0;
  std::vector<std::string> stages_;
  bool drain_ = false;
  bool volume_of_another_ = false;
  std::string volume_, no_volume_;
  std::string beside_;  ///< what an answer says beside why a report is not taken
  StatusBook book_{""};
  Server server_;
};

TEST_F(Manager, every_stage_arrives_once_in_order_whatever_fails_on_the_way) {
  unknown_hellos_ = 1;
  failures_ = 2;
  const auto reports = reporter();
  reports->stage_changed(Stage::disk_seen, "", "");
  reports->start();
  reports->stage_changed(Stage::mounted, "", "");
  reports->stage_changed(Stage::ready, "", "");
  reports->flush(std::chrono::seconds(20));
  reports->stop();
  EXPECT_THAT(stages_, ElementsAre("disk_seen", "mounted", "ready"));
  EXPECT_EQ(refused_, 2);
  EXPECT_TRUE(drain_);
  EXPECT_EQ(volume_, "vol-1");
  EXPECT_EQ(book_.snapshot().node, "imagenet-0");
}

TEST_F(Manager, a_daemon_that_starts_again_uses_the_key_that_was_given_once) {
  reporter()->start();
  for (int round = 0; round < 2; ++round) {
    const auto reports = reporter();
    reports->start();
    reports->stage_changed(round == 0 ? Stage::mounted : Stage::ready, "", "");
    reports->flush(std::chrono::seconds(20));
  }
  EXPECT_EQ(hellos_, 1);
  EXPECT_EQ(refused_, 0);
  EXPECT_THAT(stages_, testing::IsSupersetOf({"mounted", "ready"}));
}

/// Its clock may be wrong until the time is asked for, and each report got 409 meanwhile.
TEST_F(Manager, the_boot_behind_a_reboot_goes_on_with_the_key_and_with_later_numbers) {
  std::string kept;
  {
    const auto reports = reporter();
    EXPECT_FALSE(reports->key_for_next_boot()) << "none was given yet";
    reports->start();
    reports->stage_changed(Stage::rebooting, "", "");
    reports->flush(std::chrono::seconds(20));
    kept = reports->key_for_next_boot().value_or("");
    // As what is told behind it.
    reports->stage_changed(Stage::rebooting, "", "");
    reports->flush(std::chrono::seconds(20));
  }
  const std::string before = kept.substr(0, kept.rfind('\n', kept.size() - 2) + 1);
  ASSERT_EQ(before, std::string(kKeyHex) + "\nimagenet-0\n");
  const std::uint64_t number = std::stoull(kept.substr(before.size()));
  // The clock of the boot before was a day ahead.
  const std::uint64_t ahead = number + std::uint64_t{86'400'000'000};
  {
    const std::lock_guard lock(mutex_);
    EXPECT_GT(number, last_sequence_);
    last_sequence_ = ahead;
  }
  ASSERT_TRUE(write_file_atomic(key_file_, before + std::to_string(ahead) + "\n", 0600));
  book_.update([](Status& status) { status.node.reset(); });
  const auto reports = reporter();
  reports->start();
  reports->stage_changed(Stage::hello, "", "");
  EXPECT_TRUE(reports->flush(std::chrono::seconds(20)));
  reports->stop();
  EXPECT_EQ(hellos_, 1);
  EXPECT_EQ(refused_, 0);
  EXPECT_THAT(stages_, testing::Contains("hello"));
  EXPECT_EQ(book_.snapshot().node, "imagenet-0");
}

TEST_F(Manager, one_that_lost_its_ledger_is_asked_for_a_new_key) {
  const auto reports = reporter();
  reports->start();
  reports->stage_changed(Stage::mounted, "", "");
  reports->flush(std::chrono::seconds(20));
  {
    const std::lock_guard lock(mutex_);
    key_hex_ = std::string(64, 'a');
    forgot_keys_ = true;
  }
  reports->stage_changed(Stage::released, "", "");
  reports->flush(std::chrono::seconds(20));
  reports->stop();
  EXPECT_THAT(stages_, testing::Contains("released"));
  EXPECT_EQ(hellos_, 2);
}

TEST_F(Manager, hello_carries_the_signed_identity_where_there_is_one) {
  for (const auto& [identity, said] :
       {std::pair<Result<std::optional<std::string>>, const char*>{"MIAG\nAQID",
                                                                   R"("identity":"MIAG\nAQID")"},
        {std::nullopt, R"("identity":null)"},
        {fail(ErrorKind::retry_later, "no answer"), R"("identity":null)"}}) {
    identity_ = identity;
    std::remove(key_file_.c_str());
    hellos_ = 0;
    const auto reports = reporter();
    reports->start();
    reports->stage_changed(Stage::mounted, "", "");
    reports->flush(std::chrono::seconds(20));
    reports->stop();
    EXPECT_THAT(hello_, testing::HasSubstr(said));
    EXPECT_THAT(stages_, testing::Contains("mounted"));
  }
}

TEST_F(Manager, a_release_that_it_has_heard_of_is_not_said_for_ever) {
  volume_of_another_ = true;
  const auto reports = reporter();
  reports->start();
  reports->stage_changed(Stage::released, "", "");
  const auto started = std::chrono::steady_clock::now();
  reports->flush(std::chrono::seconds(20));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20));
  reports->stop();
}

/// Nobody heard it, and the disk was taken like one that no manager says anything of.
TEST_F(Manager, says_why_it_takes_no_report_of_a_volume_which_is_why_that_is_not_taken) {
  volume_of_another_ = true;
  testing::internal::CaptureStderr();
  const auto reports = reporter();
  reports->start();
  for (const Stage stage : {Stage::disk_seen, Stage::checked})
    reports->stage_changed(stage, "", "");
  EXPECT_TRUE(reports->flush(std::chrono::seconds(20)));
  reports->stop();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(no_volume_, kOfAnother);
  const std::string line = std::string("why=\"status 410: ") + kOfAnother + "\"\n";
  const std::size_t at = log.find(line);
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find(line, at + 1), std::string::npos) << "each report gets that answer: " << log;
}

/// Its wishes were dropped with the report: who was to drain went on.
TEST_F(Manager, is_obeyed_in_what_it_wishes_beside_such_an_answer) {
  volume_of_another_ = true;
  beside_ = R"(,"wishes":{"drain":true,"volume_id":"vol-2","no_volume":null})";
  const auto reports = reporter();
  reports->start();
  reports->stage_changed(Stage::disk_seen, "", "");
  EXPECT_TRUE(reports->flush(std::chrono::seconds(20)));
  reports->stop();
  EXPECT_TRUE(drain_);
  EXPECT_EQ(volume_, "vol-2");
  EXPECT_EQ(no_volume_, "") << "another is named";
}

/// Any stage that was not delivered counted: of a volume that the manager had back a shutdown kept
/// nothing for the next boot, which served it.
TEST_F(Manager, has_been_told_of_a_release_whatever_else_it_has_or_has_not_been_told) {
  const auto reports = reporter();
  reports->start();
  reports->stage_changed(Stage::draining, "", "");
  EXPECT_TRUE(reports->flush(std::chrono::seconds(20)));
  EXPECT_TRUE(reports->has_told(Stage::draining));
  EXPECT_FALSE(reports->has_told(Stage::released));
  reports->stage_changed(Stage::released, "", "");
  EXPECT_TRUE(reports->flush(std::chrono::seconds(20)));
  {
    const std::lock_guard lock(mutex_);
    failures_ = 1000;
  }
  reports->stage_changed(Stage::failed, "", "");
  EXPECT_FALSE(reports->flush(std::chrono::milliseconds(200)));
  EXPECT_TRUE(reports->has_told(Stage::released));
  EXPECT_FALSE(reports->has_told(Stage::failed));
  reports->stop();
}

TEST_F(Manager, hears_why_a_volume_was_released_with_every_repetition) {
  const auto reports = reporter();
  book_.update([](Status& status) { status.stage = Stage::released; });
  reports->report_often(true);
  reports->stage_changed(Stage::released, std::string(kUncleanBeyondRepair), "e2fsck said");
  reports->start();
  for (int waits = 0; waits < 200; ++waits) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::lock_guard lock(mutex_);
    if (stages_.size() >= 2) break;
  }
  reports->stop();
  EXPECT_GE(beyond_repair_, 2);
  EXPECT_EQ(static_cast<std::size_t>(beyond_repair_), stages_.size());
}

/// Every report got 409, "released" too, until the clock had caught up.
TEST_F(Manager, a_clock_that_was_ahead_when_the_daemon_before_reported_costs_seconds) {
  const auto now = std::chrono::system_clock::now().time_since_epoch() + std::chrono::hours(2);
  last_sequence_ = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  const auto reports = reporter();
  reports->start();
  reports->stage_changed(Stage::released, "", "");
  EXPECT_TRUE(reports->flush(std::chrono::seconds(20)));
  reports->stop();
  EXPECT_THAT(stages_, testing::Contains("released"));
  EXPECT_EQ(refused_, 2) << "an hour further, and two more";
}

TEST_F(Manager, what_it_cannot_answer_yet_is_asked_again_and_a_no_is_taken) {
  std::atomic<int> asked = 0;
  server_.http.Get("/v1/later", [&](const httplib::Request&, httplib::Response& reply) {
    reply.status = ++asked < 3 ? 503 : 200;
    if (reply.status == 200) reply.set_content("good", "text/plain");
  });
  server_.http.Get("/v1/never", [&](const httplib::Request&, httplib::Response& reply) {
    ++asked;
    reply.status = 404;
  });
  for (const auto& [path, tries, answer] :
       {std::tuple<const char*, int, std::optional<std::string>>{"/v1/later", 3, "good"},
        {"/v1/never", 1, std::nullopt}}) {
    asked = 0;
    std::vector<std::optional<std::string>> answers;
    const auto reports = reporter();
    reports->report_often(true);
    reports->start();
    reports->exchange("GET", path, "", [&](std::optional<std::string> said) {
      const std::lock_guard lock(mutex_);
      answers.push_back(std::move(said));
    });
    for (int waits = 0; waits < 200; ++waits) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::lock_guard lock(mutex_);
      if (!answers.empty()) break;
    }
    reports->stop();
    EXPECT_THAT(answers, ElementsAre(answer)) << path;
    EXPECT_EQ(asked, tries) << path;
  }
}

/// At a shutdown the list of what sessions read was lost so, although it was said to be delivered.
TEST_F(Manager, a_request_that_waits_to_be_tried_again_is_not_delivered_yet) {
  std::atomic<int> asked = 0;
  std::atomic<bool> away = true;
  server_.http.Post("/v1/list", [&](const httplib::Request&, httplib::Response& reply) {
    reply.status = ++asked < 3 || away ? 503 : 200;
  });
  std::atomic<int> answered = 0;
  const auto reports = reporter();
  reports->start();
  const auto send = [&] {
    reports->exchange("POST", "/v1/list", "x",
                      [&](const std::optional<std::string>& said) { answered += said ? 1 : 100; });
  };
  send();
  for (int waits = 0; waits < 200 && asked == 0; ++waits)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(reports->flush(std::chrono::milliseconds(200), true));
  EXPECT_EQ(answered, 0);
  away = false;
  const auto since = std::chrono::steady_clock::now();
  EXPECT_TRUE(reports->flush(std::chrono::seconds(20), true));
  EXPECT_EQ(answered, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(7))
      << "else it is tried every five seconds";
  away = true;
  send();
  EXPECT_TRUE(reports->flush(std::chrono::seconds(20), true)) << "it is given up after some tries";
  EXPECT_EQ(answered, 101);
  reports->stop();
}

TEST_F(Manager, one_that_is_away_holds_nobody_up) {
  Reporter lonely(
      book_, "http://127.0.0.1:9", key_file_, [this] { return identity_; }, [](const Wishes&) {});
  lonely.start();
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) lonely.stage_changed(Stage::warming, "", "");
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(100));
  lonely.flush(std::chrono::milliseconds(300));
  lonely.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(4));
}

}  // namespace
}  // namespace warmroot::bootstrap
