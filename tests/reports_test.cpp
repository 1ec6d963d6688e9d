// Reports: what a bootstrap may say to the manager over HTTP, and everything that is refused. Lists
// are report_lists_test.cpp's, what is kept of reports reports_board_test.cpp's.
#include "manager/reports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "bootstrap/base/unique_fd.hpp"
#include "manager/listening.hpp"
#include "manager/reports_codec.hpp"
#include "tests/reports_fixture.hpp"

namespace warmroot::manager {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kJsonType = "application/json";

TEST_F(Reports, the_signature_is_the_hmac_of_sequence_and_body) {
  // printf '7\n{}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0b0b...0b (32 bytes)
  std::string key_hex;
  for (int i = 0; i < 32; ++i) key_hex += "0b";
  EXPECT_EQ(report_signature(Secret(key_hex), 7, "{}"),
            "7ac365c9301d2c4094783e5af58b1e80a0859333588888a96d0696ff180ddd6a");
}

TEST_F(Reports, hello_gives_a_known_instance_its_key_once) {
  const auto first = hello();
  ASSERT_EQ(first->status, 200);
  const json answer = json::parse(first->body);
  EXPECT_EQ(answer["key"].get<std::string>().size(), 64u);
  EXPECT_EQ(answer["node"], "imagenet-0");
  EXPECT_EQ(answer["volume_id"], kVolume);
  EXPECT_EQ(hello()->status, 409);
  EXPECT_EQ(board_.snapshot().at(kInstance).stage, NodeStage::hello);
}

TEST_F(Reports, hello_answers_null_while_nothing_is_attached) {
  board_.set_known("research", {{kInstance, {"imagenet", "", "", false}}});
  const json answer = json::parse(hello()->body);
  EXPECT_TRUE(answer["node"].is_null());
  EXPECT_TRUE(answer["volume_id"].is_null());
}

TEST_F(Reports, hello_of_strangers_is_told_to_come_back) {
  EXPECT_EQ(hello("imagenet", "research", "i-0000000000000000f")->status, 404);
  EXPECT_EQ(hello("other")->status, 404);
  EXPECT_EQ(hello("imagenet", "elsewhere")->status, 404);
  EXPECT_EQ(hello()->status, 200) << "a refusal must not use up the one key";
}

TEST_F(Reports, hello_of_an_instance_that_was_not_seen_yet_has_ec2_looked_at_once_in_a_while) {
  while (board_.wait(Milliseconds{0})) {
  }
  hello("imagenet", "elsewhere");
  EXPECT_FALSE(board_.wait(Milliseconds{0})) << "another deployment's";
  hello("imagenet", "research", "i-0000000000000000f");
  EXPECT_TRUE(board_.wait(Milliseconds{0}));
  hello("imagenet", "research", "i-0000000000000000e");
  EXPECT_FALSE(board_.wait(Milliseconds{0})) << "anybody on the network can say hello";
  EXPECT_THAT(board_.take_knockers(), ElementsAre("i-0000000000000000e", "i-0000000000000000f"))
      << "both are asked for by the tick that the first one woke";
}

TEST_F(Reports, an_authentic_report_is_kept_and_answered_with_wishes) {
  const auto reply = signed_report(key(), body(), 1);
  ASSERT_EQ(reply->status, 200) << reply->body;
  EXPECT_EQ(json::parse(reply->body), (json{{"wishes",
                                             {{"drain", false},
                                              {"volume_id", kVolume},
                                              {"snapshot_id", nullptr},
                                              {"no_volume", nullptr}}}}));
  const core::NodeReport kept = board_.snapshot().at(kInstance);
  EXPECT_EQ(kept.stage, NodeStage::mounted);
  EXPECT_EQ(kept.volume_id, kVolume);
  EXPECT_EQ(kept.message, "so far");
  EXPECT_EQ(json::parse(kept.status_json)["warmth"], 0.5);
}

TEST(ReportBody, warmth_and_the_hint_to_rebalance_are_read_from_the_status_and_nonsense_is_not) {
  const auto with = [](const std::string& status) {
    return parse_report(R"({"version":1,"instance_id":"i-1","stage":"warming","status":)" + status +
                        "}");
  };
  EXPECT_EQ(with(R"({"warm":{"needed_blocks":4,"warmth":0.25}})")->warmth, 0.25);
  EXPECT_EQ(with(R"({"warm":{"needed_blocks":4,"warmth":1}})")->warmth, 1.0);
  EXPECT_EQ(with(R"({"warm":{"needed_blocks":4,"warmth":0}})")->warmth, 0.0);
  for (const char* nonsense :
       {"7", "{}", R"({"warm":7})", R"({"warm":{"warmth":0.5}})",
        R"({"warm":{"needed_blocks":0,"warmth":0}})",  // as before the warmer knows anything
        R"({"warm":{"needed_blocks":"4","warmth":0.5}})",
        R"({"warm":{"needed_blocks":4,"warmth":"hot"}})",
        R"({"warm":{"needed_blocks":4,"warmth":1.5}})",
        R"({"warm":{"needed_blocks":4,"warmth":-0.1}})",
        R"({"warm":{"needed_blocks":4,"warmth":null}})", R"({"rebalance":7})"}) {
    const auto report = with(nonsense);
    ASSERT_TRUE(report) << nonsense;
    EXPECT_FALSE(report->warmth) << nonsense;
    EXPECT_FALSE(report->rebalance) << nonsense;
  }
  EXPECT_TRUE(with(R"({"rebalance":"2026-01-02T03:04:05Z"})")->rebalance);
  EXPECT_FALSE(with(R"({"rebalance":null})")->rebalance);
}

TEST_F(Reports, a_wish_to_drain_reaches_the_instance) {
  const std::string secret = key();
  board_.set_known("research", {{kInstance, {"imagenet", "imagenet-0", kVolume, true}}});
  EXPECT_EQ(json::parse(signed_report(secret, body(), 1)->body)["wishes"]["drain"], true);
}

TEST_F(Reports, an_instance_without_a_node_hears_why) {
  const std::string secret = key();
  board_.set_known("research", {{kInstance, {"imagenet", "", "", false, "number 1 in line"}}});
  EXPECT_EQ(json::parse(signed_report(secret, body(), 1)->body)["wishes"]["no_volume"],
            "number 1 in line");
}

/// The boot behind a release had it confirmed, and served it until its detach was done.
TEST_F(Reports, an_instance_that_gave_its_volume_back_is_not_told_that_it_has_one) {
  board_.set_known("research", {{kInstance, {"imagenet", "imagenet-0", kVolume, false, "no"}}});
  const json greeted = json::parse(hello()->body);
  EXPECT_TRUE(greeted["volume_id"].is_null());
  const json told =
      json::parse(signed_report(greeted["key"].get<std::string>(), body("hello"), 1)->body);
  EXPECT_TRUE(told["wishes"]["volume_id"].is_null());
  EXPECT_EQ(told["wishes"]["no_volume"], "no");
  EXPECT_FALSE(board_.held_by_another(kVolume, kInstance)) << "it is its own until it is detached";
  EXPECT_TRUE(board_.held_by_another(kVolume, "i-0000000000000000f"));
}

/// While EC2 could not be looked at its next boot had the volume confirmed, by what the look before
/// the release had shown, and served it.
TEST_F(Reports, what_was_released_since_the_last_look_is_not_named_to_the_boot_behind_it) {
  const std::string secret = key();
  const auto named = [&](std::uint64_t sequence) {
    return json::parse(signed_report(secret, body("hello"), sequence)->body)["wishes"]["volume_id"];
  };
  EXPECT_EQ(named(1), kVolume);
  std::atomic<std::uint64_t> before = UINT64_MAX;
  keys_.meanwhile = [&] { before = board_.releases_heard(); };
  ASSERT_EQ(signed_report(secret, body("released"), 2)->status, 200);
  keys_.meanwhile = nullptr;
  EXPECT_TRUE(named(3).is_null());
  EXPECT_EQ(board_.known(kInstance)->volume_id, kVolume) << "its hot list is still taken";
  const auto show = [&](std::uint64_t seen) {
    board_.set_known("research", {{kInstance, {"imagenet", "imagenet-0", kVolume}}}, seen);
  };
  show(before);
  EXPECT_TRUE(named(4).is_null()) << "a tick that began before the ledger had it does not know";
  show(board_.releases_heard());
  EXPECT_EQ(named(5), kVolume) << "what is planned from now on knows of the release";
}

TEST_F(Reports, forged_and_unsigned_reports_are_refused) {
  const std::string secret = key();
  EXPECT_EQ(report(body(), 1, std::string(64, '0'))->status, 401);
  EXPECT_EQ(report(body(), 1, "")->status, 401);
  EXPECT_EQ(report(body("ready"), 1, report_signature(Secret(secret), 1, body()))->status, 401)
      << "other body";
  EXPECT_EQ(report(body(), 2, report_signature(Secret(secret), 1, body()))->status, 401)
      << "other sequence";
  EXPECT_EQ(board_.snapshot().at(kInstance).stage, NodeStage::hello);
  EXPECT_EQ(signed_report(secret, body(), 1)->status, 200)
      << "forgeries must not use up sequence numbers";
}

TEST_F(Reports, a_report_before_hello_is_refused) {
  EXPECT_EQ(signed_report(std::string(64, '0'), body(), 1)->status, 401);
}

TEST_F(Reports, replays_are_refused) {
  const std::string secret = key();
  EXPECT_EQ(signed_report(secret, body(), 5)->status, 200);
  EXPECT_EQ(signed_report(secret, body(), 5)->status, 409);
  EXPECT_EQ(signed_report(secret, body(), 4)->status, 409);
  EXPECT_EQ(signed_report(secret, body("ready"), 6)->status, 200);
}

TEST_F(Reports, refusals_are_counted_by_their_reason) {
  const std::string secret = key();
  hello();
  hello("other");
  client_->Post("/v1/hello", "{}", kJsonType);
  report(body(), 1, "");
  signed_report(secret, body(), 5);
  signed_report(secret, body(), 5);
  signed_report(secret, body(), 4);
  signed_report(secret, "{}", 6);
  client_->Post("/v1/report", body(), kJsonType);
  board_.set_known("research", {{"i-0000000000000000f", {"imagenet", "imagenet-0", kVolume}}});
  const auto dead = signed_report(secret, body("ready"), 7);
  EXPECT_EQ(dead->status, 410) << "its volume is another instance's";
  EXPECT_EQ(board_.snapshot().at(kInstance).stage, NodeStage::mounted);
  auto counts = board_.refusals.all();
  EXPECT_EQ(counts.size(), kRefusals) << "the words differ";
  std::erase_if(counts, [](const auto& each) { return each.second == 0; });
  EXPECT_EQ(counts, (std::map<std::string, std::uint64_t>{{"hello key_in_use", 1},
                                                          {"hello unknown", 1},
                                                          {"hello malformed", 1},
                                                          {"report forged", 1},
                                                          {"report replayed", 1},
                                                          {"report late", 1},
                                                          {"report malformed", 2},
                                                          {"report dead_lease", 1}}));
}

TEST_F(Reports, a_release_of_what_another_instance_holds_by_now_is_kept_before_it_is_refused) {
  // Not kept, the instance counted as free and was given a volume that nothing mounts any more.
  const std::string secret = key();
  board_.set_known("research", {{"i-0000000000000000f", {"imagenet", "imagenet-0", kVolume}}});
  EXPECT_EQ(signed_report(secret, body("draining"), 1)->status, 410);
  EXPECT_EQ(board_.snapshot().at(kInstance).stage, NodeStage::hello);
  EXPECT_EQ(keys_.releases, 0);
  EXPECT_EQ(signed_report(secret, body("released"), 2)->status, 410);
  EXPECT_EQ(board_.snapshot().at(kInstance).stage, NodeStage::released);
  EXPECT_EQ(keys_.releases, 1);
}

/// Such an answer said why and no more: who was to drain did not, and waited for no other volume.
TEST_F(Reports, who_reports_what_another_instance_holds_hears_the_wishes_all_the_same) {
  const std::string secret = key();
  const std::string other = "vol-0fedcba9876543210";
  KnownInstance own{"imagenet", "imagenet-1", other, true};
  own.snapshot_id = "snap-1";
  const KnownInstance holder{"imagenet", "imagenet-0", kVolume};
  board_.set_known("research", {{kInstance, own}, {"i-0000000000000000f", holder}});
  const json wishes = {
      {"drain", true}, {"volume_id", other}, {"snapshot_id", "snap-1"}, {"no_volume", nullptr}};
  const json dead = std::string("volume ") + kVolume + " is another instance's by now";
  std::uint64_t sequence = 0;
  for (const char* stage : {"ready", "released"}) {
    const auto reply = signed_report(secret, body(stage), ++sequence);
    EXPECT_EQ(reply->status, 410);
    json told = json::parse(reply->body);
    EXPECT_EQ(told["error"], dead) << stage;
    EXPECT_EQ(told["wishes"], wishes) << stage;
  }
  own = {"imagenet", "", "", false, "number 1 in line"};
  board_.set_known("research", {{kInstance, own}, {"i-0000000000000000f", holder}});
  json told = json::parse(signed_report(secret, body(), ++sequence)->body);
  EXPECT_EQ(told["wishes"]["no_volume"], "number 1 in line");
  EXPECT_TRUE(told["wishes"]["volume_id"].is_null());
}

TEST_F(Reports, a_node_that_reboots_is_shown_so_and_goes_on_with_its_key) {
  const std::string secret = key();
  EXPECT_EQ(signed_report(secret, body("rebooting"), 1)->status, 200);
  EXPECT_EQ(board_.snapshot().at(kInstance).stage, NodeStage::rebooting);
  EXPECT_EQ(keys_.releases, 0);
  EXPECT_EQ(signed_report(secret, body("hello"), 2)->status, 200);
  EXPECT_EQ(board_.snapshot().at(kInstance).stage, NodeStage::hello);
}

TEST_F(Reports, hostile_bodies_are_refused_without_harm) {
  const std::string secret = key();
  std::uint64_t sequence = 0;
  const auto status = [&](const std::string& text) {
    return signed_report(secret, text, ++sequence)->status;
  };
  EXPECT_EQ(status("not json"), 400);
  EXPECT_EQ(status(""), 400);
  EXPECT_EQ(status("[]"), 400);
  EXPECT_EQ(status("{}"), 400);
  EXPECT_EQ(status(R"({"version":1,"instance_id":7,"stage":"warm"})"), 400);
  EXPECT_EQ(status(R"({"version":2,"instance_id":"i-0123456789abcdef0","stage":"warm"})"), 400);
  EXPECT_EQ(status(R"({"version":1,"instance_id":"i-0123456789abcdef0","stage":"flying"})"), 400);
  EXPECT_EQ(status(R"({"version":1,"instance_id":"i-other","stage":"warm"})"), 400);
  EXPECT_EQ(status(R"({"version":1,"instance_id":"i-0123456789abcdef0","stage":"warm","status":)" +
                   std::string(200'000, '[')),
            400)
      << "depth";
  EXPECT_EQ(status(std::string(kMaxReportBytes + 1, ' ')), 413);
  EXPECT_EQ(client_->Post("/v1/hello", "{\"version\":1}", "application/json")->status, 400);
}

TEST_F(Reports, serves_the_bootstrap_whole) {
  const auto reply = client_->Get("/bootstrap/warmroot-bootstrap");
  ASSERT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, program_.bytes);
}

TEST_F(Reports, an_instance_launched_before_an_upgrade_gets_the_program_that_it_asks_for) {
  const auto body = [&](const std::string& sha256) {
    return client_->Get("/bootstrap/warmroot-bootstrap?sha256=" + sha256)->body;
  };
  EXPECT_EQ(body("earlier"), "of before");
  EXPECT_EQ(body("never"), program_.bytes) << "by which it can say what is wrong";
}

TEST_F(Reports, serves_the_pages_of_operators) {
  EXPECT_EQ(client_->Get("/status")->body, "{\"stable\":true}");
  EXPECT_EQ(client_->Get("/metrics")->body, "warmroot_nodes 2\n");
  EXPECT_EQ(client_->Get("/healthz")->status, 200);
  healthy_ = false;
  EXPECT_EQ(client_->Get("/healthz")->status, 503);
  EXPECT_EQ(client_->Get("/elsewhere")->status, 404);
}

TEST_F(Reports, an_answered_connection_is_closed_so_that_idle_ones_hold_no_thread) {
  client_->set_keep_alive(true);
  EXPECT_EQ(hello()->get_header_value("Connection"), "close");
  EXPECT_EQ(report(body(), 1, "")->get_header_value("Connection"), "close");
  EXPECT_EQ(client_->Get("/status")->get_header_value("Connection"), "close");
}

TEST_F(Reports, a_taken_address_is_an_error_with_a_remedy) {
  const auto second = ReportServer::start({"127.0.0.1", server_->port()}, {}, board_, keys_,
                                          program_, hot_lists_, {});
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().context, HasSubstr("cannot listen on 127.0.0.1:"));
  EXPECT_THAT(second.error().context, HasSubstr("--listen"));
}

TEST_F(Reports, bodies_that_the_length_limit_cannot_see_are_refused_unread) {
  // The server hangs up on the unread body, so a client may see the answer or a reset.
  const auto refused = [](const httplib::Result& reply, int status) {
    return !reply || reply->status == status;
  };
  for (const std::size_t length : {std::size_t{2}, std::size_t{1024} * 1024}) {
    for (const char* path : {"/v1/hello", "/v1/report"}) {
      const auto chunked = client_->Post(
          path,
          [&](std::size_t, httplib::DataSink& sink) {
            const std::string block(length, ' ');
            sink.write(block.data(), block.size());
            sink.done();
            return true;
          },
          kJsonType);
      EXPECT_TRUE(refused(chunked, 411)) << path << " " << length;
      const httplib::Headers packing = {{"Content-Encoding", "gzip"}};
      const auto packed = client_->Post(path, packing, std::string(length, 'x'), kJsonType);
      EXPECT_TRUE(refused(packed, 415)) << path << " " << length;
    }
  }
  const auto empty = client_->Post("/v1/hello", "", kJsonType);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->status, 400) << "a length of 0 is one";
  EXPECT_EQ(hello()->status, 200);
}

/// The ledger was slow with the release, so that the node had not waited for the answer, and people
/// had run `up` since: the volume was detached from it.
TEST_F(Reports, a_release_that_is_kept_when_the_next_word_is_there_already_is_not_the_last_word) {
  const std::string secret = key();
  std::atomic<bool> is_first = true;
  keys_.meanwhile = [&] {
    if (!is_first.exchange(false)) return;
    const std::string text = body("checked");
    const httplib::Headers headers = {
        {"X-Warmroot-Instance", kInstance},
        {"X-Warmroot-Sequence", "2"},
        {"X-Warmroot-Signature", report_signature(Secret(secret), 2, text)}};
    httplib::Client other("127.0.0.1", server_->port());
    const auto reply = other.Post("/v1/report", headers, text, kJsonType);
    EXPECT_TRUE(reply && reply->status == 200);
  };
  EXPECT_EQ(signed_report(secret, body("released"), 1)->status, 200);
  keys_.meanwhile = nullptr;
  EXPECT_EQ(keys_.releases, 1) << "it was kept";
  EXPECT_EQ(board_.snapshot().at(kInstance).stage, NodeStage::checked);
  EXPECT_TRUE(board_.known(kInstance)->no_volume.empty());
}

/// Its key is there, so that it says no hello of its own.
TEST_F(Reports, an_instance_on_which_up_is_run_again_is_told_from_a_boot_behind_its_release) {
  const auto is_up_again = [&] { return board_.snapshot().at(kInstance).up_again; };
  const std::string secret = key();
  ASSERT_EQ(signed_report(secret, body("released"), 1)->status, 200);
  ASSERT_EQ(signed_report(secret, body("hello"), 2)->status, 200);
  EXPECT_TRUE(is_up_again());
  ASSERT_EQ(signed_report(secret, body("released"), 3)->status, 200);
  KnownInstance known{"imagenet", "imagenet-0", kVolume};
  known.private_ip = "127.0.0.1";
  board_.set_known("research", {{kInstance, known}});
  ASSERT_TRUE(keys_.replace_key(kInstance, Secret(std::string(64, 'a'))).has_value());
  ASSERT_EQ(hello()->status, 200) << "nothing was signed with the key that it has now";
  EXPECT_FALSE(is_up_again());
}

TEST(Listening, a_storm_of_connections_waits_in_the_queue_and_not_for_retransmissions) {
  httplib::Server server;  // bound, and accepts nothing
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(bind_and_listen(server, "127.0.0.1", 0)));
  constexpr int kStorm = 200;
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < kStorm; ++i) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    (void)::connect(sockets.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  int connected = 0;
  for (const auto& socket : sockets) {
    pollfd writable{socket.get(), POLLOUT, 0};
    connected += ::poll(&writable, 1, 100) == 1 && (writable.revents & POLLOUT) != 0;
  }
  EXPECT_EQ(connected, kStorm);
}

TEST(ListenAddress, is_read_in_its_usual_forms) {
  EXPECT_EQ(parse_listen("0.0.0.0:8470")->port, 8470);
  EXPECT_EQ(parse_listen("127.0.0.1:0")->port, 0);
  EXPECT_EQ(parse_listen("[::1]:99")->host, "::1");
  EXPECT_EQ(parse_listen("localhost")->port, kDefaultPort);
  for (const char* bad : {"", ":80", "host:", "host:port", "host:70000"})
    EXPECT_FALSE(parse_listen(bad).has_value()) << bad;
}

}  // namespace
}  // namespace warmroot::manager
