#include "bootstrap/report_sign.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bootstrap/base/words.hpp"
#include "bootstrap/documents.hpp"

namespace warmroot::bootstrap {
namespace {

struct KnownAnswer {
  std::string key, message, digest;
};
class KnownAnswers : public testing::TestWithParam<KnownAnswer> {};

TEST_P(KnownAnswers, of_rfc_4231_hold) {
  EXPECT_EQ(hmac_sha256_hex(GetParam().key, GetParam().message), GetParam().digest);
}

INSTANTIATE_TEST_SUITE_P(
    Rfc4231, KnownAnswers,
    testing::Values(KnownAnswer{std::string(20, '\x0b'), "Hi There",
                                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
                    KnownAnswer{"Jefe", "what do ya want for nothing?",
                                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
                    KnownAnswer{std::string(20, '\xaa'), std::string(50, '\xdd'),
                                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
                    KnownAnswer{
                        std::string(131, '\xaa'),
                        "Test Using Larger Than Block-Size Key - Hash Key First",
                        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"}));

TEST(ReportSign, the_sequence_is_part_of_what_is_signed) {
  EXPECT_EQ(sign_report("key", 7, "{}"), hmac_sha256_hex("key", "7\n{}"));
  EXPECT_NE(sign_report("key", 8, "{}"), sign_report("key", 7, "{}"));
}

TEST(ReportSign, a_key_is_exactly_64_hex_digits) {
  EXPECT_EQ(parse_key(std::string(64, 'a')), std::string(32, '\xaa'));
  EXPECT_EQ(parse_key(std::string(64, 'A')), std::string(32, '\xaa'));
  EXPECT_FALSE(parse_key(std::string(63, 'a')));
  EXPECT_FALSE(parse_key(std::string(66, 'a')));
  EXPECT_FALSE(parse_key(std::string(63, 'a') + "x"));
  EXPECT_FALSE(parse_key(""));
}

TEST(HelloAnswer, holds_a_key_and_perhaps_a_node_and_a_volume) {
  const auto full = parse_hello_answer(R"({"key":"00","node":"imagenet-0","volume_id":"vol-1"})");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->node, "imagenet-0");
  EXPECT_EQ(full->volume_id, "vol-1");
  const auto bare = parse_hello_answer(R"({"key":"00","node":null,"volume_id":null})");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->node, std::nullopt);
  for (const char* bad : {"", "<html>", "[]", "{}", R"({"key":7})"})
    EXPECT_FALSE(parse_hello_answer(bad)) << bad;
}

TEST(Wishes, what_cannot_be_read_is_no_wish) {
  EXPECT_TRUE(parse_wishes(R"({"wishes":{"drain":true,"volume_id":"vol-1"}})").drain);
  EXPECT_EQ(parse_wishes(R"({"wishes":{"drain":false,"volume_id":"vol-1"}})").volume_id, "vol-1");
  for (const char* odd : {"", "<html>", "{}", R"({"wishes":7})", R"({"wishes":{"drain":"yes"}})"})
    EXPECT_FALSE(parse_wishes(odd).drain) << odd;
}

TEST(Wishes, tell_why_there_is_no_volume) {
  EXPECT_EQ(
      parse_wishes(R"({"wishes":{"drain":false,"volume_id":null,"no_volume":"wait"}})").no_volume,
      "wait");
  EXPECT_EQ(parse_wishes(R"({"wishes":{"drain":false,"no_volume":null}})").no_volume, std::nullopt);
}

TEST(Wishes, beside_a_refusal_name_another_volume_or_tell_why_there_is_none) {
  struct Case {
    const char* answer;
    bool drain;
    std::optional<std::string> volume_id, no_volume;
  };
  const Case cases[] = {
      {R"({"error":"gone","wishes":{"drain":true,"volume_id":"vol-2","no_volume":null}})", true,
       "vol-2", std::nullopt},
      {R"({"error":"gone","wishes":{"drain":true,"volume_id":null,"no_volume":null}})", true,
       std::nullopt, "gone"},
      {R"({"error":"gone","wishes":{"drain":false,"volume_id":null,"no_volume":"wait"}})", false,
       std::nullopt, "wait"},
      {R"({"error":"gone"})", false, std::nullopt, "gone"},  // of an older manager
      {"<html>", false, std::nullopt, "status 410"},
  };
  for (const auto& each : cases) {
    const auto wishes = wishes_beside_refusal(each.answer, "status 410");
    EXPECT_EQ(wishes.drain, each.drain) << each.answer;
    EXPECT_EQ(wishes.volume_id, each.volume_id) << each.answer;
    EXPECT_EQ(wishes.no_volume, each.no_volume) << each.answer;
  }
}

TEST(Refusal, says_why_in_words_for_a_terminal) {
  EXPECT_EQ(refusal_reason(R"({"error":"volume vol-1 is another instance's by now"})"),
            "volume vol-1 is another instance's by now");
  EXPECT_EQ(refusal_reason(R"({"error":"a\u001b[2Jb"})"), "a [2Jb");
  EXPECT_LT(refusal_reason(R"({"error":")" + std::string(5000, 'x') + "\"}").size(), 400U);
  for (const char* odd : {"", "<html>", "[]", "{}", R"({"error":7})"})
    EXPECT_EQ(refusal_reason(odd), "") << odd;
}

TEST(StatusDocument, survives_bytes_that_are_no_text) {
  Status status;
  status.message = "\xff\xfe e2fsck said";
  status.steps.push_back({"check", 1, 2, Outcome::failed, "\x80"});
  const std::string document = status_document(status);
  EXPECT_EQ(status_fields(document).stage, "hello");
  ASSERT_TRUE(status_text(document));
  EXPECT_NE(status_text(document)->find("failed  check"), std::string::npos);
}

TEST(SessionWait, ends_with_sessions_in_the_volume_or_when_they_will_not_come) {
  Status status;
  const auto wait = [&] { return session_wait(status_fields(status_document(status))); };
  for (const Stage stage : {Stage::hello, Stage::disk_seen, Stage::checked, Stage::mounted}) {
    status.stage = stage;
    EXPECT_FALSE(wait().there || wait().vain) << to_string(stage);
  }
  for (const Stage stage : {Stage::ready, Stage::warming, Stage::warm}) {
    status.stage = stage;
    EXPECT_TRUE(wait().there && !wait().vain) << to_string(stage);
  }
  for (const Stage stage : {Stage::rebooting, Stage::draining}) {
    status.stage = stage;
    EXPECT_EQ(wait().vain, to_string(stage));
  }
  status.stage = Stage::failed;
  status.message = "no root";
  EXPECT_EQ(wait().vain, "no root");
  EXPECT_FALSE(wait().there);
  EXPECT_FALSE(session_wait(status_fields("")).there || session_wait(status_fields("{")).vain);
}

TEST(StatusText, sends_no_escape_sequence_of_the_volume_to_a_terminal) {
  const std::string clear =
      "a\x1b[2J\x7f\xc2\x9b"
      "b\r\n\xc3\xbc";
  const std::string plain = "a [2J  b  \xc3\xbc";
  Status status;
  status.message = status.volume_os = status.hot_list = status.warm.note = clear;
  status.remarks = {clear};
  status.steps.push_back({"hook " + clear, 1, 2, Outcome::failed, clear});
  const std::string document = status_document(status);
  EXPECT_EQ(document.find_first_of("\x1b\x7f"), std::string::npos);
  EXPECT_EQ(document.find("\\u001b"), std::string::npos) << "the manager prints its reports, too";
  EXPECT_EQ(status_fields(document).message, plain);
  const std::string text = *status_text(document);
  for (const char* line : {"message: ", "system:  ", "hot list: ", "remark:  ", " hook "})
    EXPECT_NE(text.find(line + plain), std::string::npos) << line << text;
  EXPECT_EQ(report_body(status, Stage::failed, "failed", clear).find("\\u001b"), std::string::npos);
}

/// The manager takes 256 KiB, and refused every report of a node whose volume had a long name,
/// whose base refused thousands of its people, or whose release was tried for hours.
TEST(StatusText, makes_no_report_that_the_manager_would_not_take) {
  const std::string endless(300'000, '\xff');
  Status status;
  status.message = status.volume_os = status.hot_list = status.root = status.entry =
      status.warm.note = endless;
  status.remarks.assign(1000, endless);
  for (int i = 0; i < 1000; ++i)
    status.steps.push_back({"step " + std::to_string(i), i, 2, Outcome::failed, endless});
  status.steps[7].name = endless;
  const std::string body = report_body(status, Stage::failed, "failed", endless);
  EXPECT_LT(body.size(), 256u * 1024);
  const auto report = nlohmann::json::parse(body);
  EXPECT_LE(report.at("message").get<std::string>().size(), 1024u);
  for (const char* kept :
       {"\"step 0\"", "\"step 39\"", "920 steps are left out", "\"step 960\"", "\"step 999\""})
    EXPECT_NE(body.find(kept), std::string::npos) << kept;
  EXPECT_EQ(body.find("\"step 40\""), std::string::npos);
  EXPECT_EQ(shortened("gr\xc3\xbc\xc3\x9f", 5), "gr\xc3\xbc...");
  EXPECT_EQ(shortened("short", 5), "short");
}

TEST(StatusText, says_how_long_warming_will_take_and_what_became_of_the_hot_list) {
  Status status;
  status.warm.state = warm::WarmState::running;
  status.warm.needed_blocks = 400;
  status.warm.warmth = 0.25;
  EXPECT_EQ(status_text(status_document(status))->find("to go"), std::string::npos);
  status.warm.eta_ms = 4650;
  status.warm.hot_blocks = 30;
  status.warm.hot_present = 30;
  status.warm.hot_ms = 610;
  const std::string text = *status_text(status_document(status));
  EXPECT_NE(text.find("25.0 % of 400 needed blocks of 512 KiB present, 4.7 s to go"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("30 of 30 blocks, all after 0.6 s"), std::string::npos) << text;
}

struct WarmLineCase {
  warm::WarmState state;
  double warmth;
  std::optional<std::uint64_t> eta_ms;
  unsigned columns;
  const char* text;
};

TEST(WarmLine, fits_the_terminal) {
  using warm::WarmState;
  for (const WarmLineCase& c : {
           WarmLineCase{WarmState::waiting, 0, {}, 80, "warming: not begun"},
           WarmLineCase{WarmState::running, 0.5, 2000, 60,
                        "warming [#####-----]  50.0 %  50 of 100 blocks, 2.0 s to go"},
           WarmLineCase{WarmState::running, 0.5, 2000, 20,
                        "warming  50.0 %  50 of 100 blocks, 2.0 s to go"},
           WarmLineCase{WarmState::done, 1, 0, 60,
                        "warming [################] 100.0 %  100 of 100 blocks, done"},
           WarmLineCase{WarmState::failed,
                        0.1,
                        {},
                        55,
                        "warming [#---------]  10.0 %  10 of 100 blocks, failed"},
       }) {
    Status status;
    status.warm.state = c.state;
    status.warm.needed_blocks = 100;
    status.warm.warmth = c.warmth;
    status.warm.present_blocks = static_cast<std::uint64_t>(c.warmth * 100);
    status.warm.eta_ms = c.eta_ms;
    const WarmLine line = warm_line(status_document(status), c.columns);
    EXPECT_EQ(line.text, c.text);
    EXPECT_EQ(line.ended, c.state == WarmState::done || c.state == WarmState::failed);
    EXPECT_EQ(line.failed, c.state == WarmState::failed);
  }
  for (const char* odd : {"", "<html>", "[]", R"({"warm":7})", R"({"warm":{"state":7}})"})
    EXPECT_FALSE(warm_line(odd, 80).ended) << odd;
}

TEST(StatusText, of_something_else_is_an_error) {
  EXPECT_FALSE(status_text("<html>"));
  EXPECT_EQ(status_fields("<html>").stage, "");
}

}  // namespace
}  // namespace warmroot::bootstrap
