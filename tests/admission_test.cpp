// Admission: which hellos get a key, which get a second one, and how the others are counted.
#include "manager/admission.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "manager/reports.hpp"
#include "tests/sim/instance_identity.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr const char* kInstance = "i-0123456789abcdef0";
constexpr const char* kNeighbour = "i-0123456789abcdef1";

/// One key for all tests: each takes some 100 ms to make.
sim::IdentitySigner& region() {
  static sim::IdentitySigner signer;
  return signer;
}

json document_of(const std::string& instance_id, const std::string& address) {
  return {{"accountId", "111122223333"}, {"imageId", "ami-1"},      {"instanceId", instance_id},
          {"instanceType", "g5.xlarge"}, {"privateIp", address},    {"region", "us-east-1"},
          {"version", "2017-09-30"},     {"architecture", "x86_64"}};
}

class Admissions : public testing::Test {
 protected:
  Admissions() {
    KnownInstance first{"imagenet", "imagenet-0", "vol-1"}, second{"imagenet", "imagenet-1", ""};
    for (KnownInstance* known : {&first, &second}) {
      known->image_id = "ami-1";
      known->instance_type = "g5.xlarge";
    }
    first.private_ip = "10.0.0.5";
    second.private_ip = "10.0.0.6";
    board_.set_known("research", {{kInstance, first}, {kNeighbour, second}});
  }

  static AdmissionRules rules() {
    return {*IdentityCertificates::parse(region().certificate()), "111122223333", "us-east-1"};
  }
  static Hello hello(const json& document = document_of(kInstance, "10.0.0.5"),
                     const std::string& instance_id = kInstance) {
    return {instance_id, "research", "imagenet", region().sign(document.dump())};
  }
  /// Its status, and the one reason that was counted.
  std::pair<int, std::string> said(Admission& admission, const Hello& words,
                                   const std::string& peer = "10.0.0.5", seconds at = seconds{0}) {
    const auto before = board_.refusals.all();
    const auto answer = admission.hello(words, peer, began_ + at);
    std::string reasons;
    for (const auto& [reason, count] : board_.refusals.all())
      if (count != before.at(reason)) reasons += reason;
    EXPECT_EQ(answer.status == 200, answer.error.empty());
    EXPECT_EQ(answer.status == 200, !answer.key.empty());
    last_key_ = answer.key;
    return {answer.status, reasons};
  }

  const Admission::Time began_ = Admission::Time(std::chrono::hours{1});
  ReportBoard board_;
  MemoryKeyStore keys_;
  Secret last_key_;
};

TEST_F(Admissions, only_the_instance_itself_gets_its_key) {
  Admission admission(rules(), board_, keys_, began_);
  struct Case {
    const char* who;
    Hello hello;
    const char* peer;
    std::pair<int, std::string> answer;
  };
  json elsewhere = document_of(kInstance, "10.0.0.5"), foreign = elsewhere, other_type = elsewhere,
       other_image = elsewhere;
  elsewhere["region"] = "us-east-2";
  foreign["accountId"] = "444455556666";
  other_type["instanceType"] = "t3.nano";
  other_image["imageId"] = "ami-2";
  Hello unsigned_hello = hello();
  unsigned_hello.identity.clear();
  Hello forged = hello();
  sim::IdentitySigner mallory;
  forged.identity = mallory.sign(document_of(kInstance, "10.0.0.5").dump());
  Hello other_pool = hello();
  other_pool.pool = "other";
  const std::vector<Case> cases = {
      {"who knows the id alone", unsigned_hello, "10.0.0.5", {403, "hello unsigned"}},
      {"who signs by themselves", forged, "10.0.0.5", {403, "hello forged"}},
      {"a neighbour with a document of its own",
       hello(document_of(kNeighbour, "10.0.0.6")),
       "10.0.0.6",
       {403, "hello wrong_instance"}},
      {"a neighbour with a stolen document", hello(), "10.0.0.6", {403, "hello wrong_address"}},
      {"an address that EC2 does not show",
       hello(document_of(kInstance, "10.0.0.9")),
       "10.0.0.9",
       {403, "hello wrong_address"}},
      {"another Region", hello(elsewhere), "10.0.0.5", {403, "hello wrong_account"}},
      {"another account", hello(foreign), "10.0.0.5", {403, "hello wrong_account"}},
      {"another type", hello(other_type), "10.0.0.5", {403, "hello wrong_instance"}},
      {"another image", hello(other_image), "10.0.0.5", {403, "hello wrong_instance"}},
      {"another pool's", other_pool, "10.0.0.5", {404, "hello unknown"}},
      {"the instance", hello(), "10.0.0.5", {200, ""}},
      {"the neighbour",
       hello(document_of(kNeighbour, "10.0.0.6"), kNeighbour),
       "::ffff:10.0.0.6",
       {200, ""}},
      {"the instance again", hello(), "10.0.0.5", {409, "hello key_in_use"}},
  };
  for (const Case& test : cases)
    EXPECT_EQ(said(admission, test.hello, test.peer), test.answer) << test.who;
}

TEST_F(Admissions, whose_address_cannot_be_told_does_not_skip_its_check) {
  Admission admission(rules(), board_, keys_, began_);
  EXPECT_EQ(said(admission, hello(), ""),
            (std::pair<int, std::string>{403, "hello wrong_address"}));
  EXPECT_EQ(said(admission, hello()).first, 200) << "the one key is still there";
}

TEST_F(Admissions, behind_nat_the_address_is_not_compared_and_all_else_is) {
  AdmissionRules behind_nat = rules();
  behind_nat.check_address = false;
  Admission admission(behind_nat, board_, keys_, began_);
  EXPECT_EQ(said(admission, hello(document_of(kNeighbour, "10.0.0.6")), "192.0.2.1").first, 403);
  EXPECT_EQ(said(admission, hello(), "").first, 200);
}

TEST_F(Admissions, who_proves_nothing_makes_nobody_look_at_ec2) {
  Admission admission(rules(), board_, keys_, began_);
  Hello unseen = hello(document_of("i-0000000000000000f", "10.0.0.7"), "i-0000000000000000f");
  const Hello proven = unseen;
  unseen.identity.clear();
  EXPECT_EQ(said(admission, unseen, "10.0.0.7").first, 403);
  EXPECT_TRUE(board_.take_knockers().empty());
  EXPECT_EQ(said(admission, proven, "10.0.0.7"),
            (std::pair<int, std::string>{404, "hello unknown"}));
  EXPECT_EQ(board_.take_knockers().size(), 1u);
}

TEST_F(Admissions, a_machine_that_started_again_gets_a_new_key_once_the_old_one_is_silent) {
  Admission admission(rules(), board_, keys_, began_);
  const std::pair<int, std::string> in_use{409, "hello key_in_use"}, given{200, ""};
  EXPECT_EQ(said(admission, hello()), given);
  const Secret first = last_key_;
  ASSERT_EQ(*keys_.advance(kInstance, 1'000), Turn::fresh);
  EXPECT_EQ(said(admission, hello(), "10.0.0.5", kSilence - seconds{1}), in_use);
  admission.heard(kInstance, began_ + seconds{20});
  EXPECT_EQ(said(admission, hello(), "10.0.0.5", kSilence + seconds{19}), in_use)
      << "the key is in use";
  EXPECT_EQ(said(admission, hello(), "10.0.0.6", kSilence + seconds{20}).second,
            "hello wrong_address");
  EXPECT_EQ(board_.keys_replaced, 0u);
  EXPECT_EQ(said(admission, hello(), "10.0.0.5", kSilence + seconds{20}), given);
  EXPECT_EQ(board_.keys_replaced, 1u);
  EXPECT_NE(last_key_, first);
  EXPECT_EQ(*keys_.key_of(kInstance), last_key_) << "the old one is void";
  EXPECT_EQ(*keys_.advance(kInstance, 1), Turn::fresh) << "its clock may be behind now";
  EXPECT_EQ(said(admission, hello(), "10.0.0.5", kSilence + seconds{21}), in_use);
}

TEST_F(Admissions, a_manager_that_was_away_does_not_take_its_own_absence_for_silence) {
  {
    Admission before(rules(), board_, keys_, began_ - std::chrono::hours{1});
    EXPECT_EQ(said(before, hello(), "10.0.0.5", -std::chrono::minutes{59}).first, 200);
  }
  Admission admission(rules(), board_, keys_, began_);
  EXPECT_EQ(said(admission, hello()).first, 409);
  EXPECT_EQ(said(admission, hello(), "10.0.0.5", kSilence - seconds{1}).first, 409);
  EXPECT_EQ(said(admission, hello(), "10.0.0.5", kSilence).first, 200);
}

TEST_F(Admissions, without_certificates_the_id_is_believed_once_and_for_ever) {
  Admission admission({}, board_, keys_, began_);
  Hello plain = hello();
  plain.identity = "not looked at";
  EXPECT_EQ(said(admission, plain, "10.0.0.5").first, 200);
  ASSERT_EQ(*keys_.advance(kInstance, 1), Turn::fresh);
  EXPECT_EQ(said(admission, plain, "10.0.0.5", std::chrono::hours{1}).first, 409)
      << "anybody could wait for a silence";
}

/// fleet_sim seed 1000020233: its key had gone out, and nobody heard the instance any more.
TEST_F(Admissions, without_certificates_an_instance_that_the_answer_never_reached_gets_a_new_key) {
  Admission admission({}, board_, keys_, began_);
  Hello plain = hello();
  plain.identity.clear();
  EXPECT_EQ(said(admission, plain).first, 200);
  const Secret lost = last_key_;
  EXPECT_EQ(said(admission, plain, "10.0.0.6").first, 409) << "a neighbour that knows the id";
  EXPECT_EQ(said(admission, plain, "").first, 409) << "nobody can tell from where";
  EXPECT_EQ(*keys_.key_of(kInstance), lost);
  EXPECT_EQ(said(admission, plain, "::ffff:10.0.0.5").first, 200);
  EXPECT_NE(last_key_, lost);
  EXPECT_EQ(*keys_.key_of(kInstance), last_key_) << "the old one is void";
  EXPECT_EQ(board_.keys_replaced, 1u);
  ASSERT_EQ(*keys_.advance(kInstance, 1), Turn::fresh);
  EXPECT_EQ(said(admission, plain).first, 409) << "it has signed something: it has the key";
}

TEST_F(Admissions, without_certificates_and_addresses_a_key_is_given_once) {
  AdmissionRules nothing_known;
  nothing_known.check_address = false;
  Admission admission(nothing_known, board_, keys_, began_);
  EXPECT_EQ(said(admission, hello()).first, 200);
  EXPECT_EQ(said(admission, hello()).first, 409) << "anybody could take it away from the instance";
}

TEST_F(Admissions, over_http_the_connection_itself_is_compared) {
  KnownInstance here{"imagenet", "imagenet-0", "vol-1"};
  board_.set_known("research", {{kInstance, here}});
  const TemporaryDirectory folder;
  HotLists hot_lists(folder.path() + "/hot-lists");
  const BootstrapProgram program;
  const auto server =
      *ReportServer::start({"127.0.0.1", 0}, rules(), board_, keys_, program, hot_lists, {});
  httplib::Client client("127.0.0.1", server->port());
  const auto status = [&](const std::string& address) {
    const json body = {{"version", 1},
                       {"instance_id", kInstance},
                       {"deployment", "research"},
                       {"pool", "imagenet"},
                       {"identity", region().sign(document_of(kInstance, address).dump())}};
    // A header of the same name as the one that the library makes of the peer's address.
    return client
        .Post("/v1/hello", {{"REMOTE_ADDR", address}, {"X-Forwarded-For", address}}, body.dump(),
              "application/json")
        ->status;
  };
  EXPECT_EQ(status("10.0.0.5"), 403);
  EXPECT_EQ(status("127.0.0.1"), 200);
  const json huge = {{"version", 1},
                     {"instance_id", kInstance},
                     {"deployment", "research"},
                     {"pool", "imagenet"},
                     {"identity", std::string(kMaxIdentityCharacters + 1, 'A')}};
  EXPECT_EQ(client.Post("/v1/hello", huge.dump(), "application/json")->status, 400);
}

TEST_F(Admissions, a_file_of_certificates_that_cannot_be_used_is_told) {
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/certificates.pem";
  const auto why = [&] {
    const auto loaded = load_identity_certificates(path);
    return loaded ? std::string() : loaded.error().message();
  };
  EXPECT_THAT(why(), HasSubstr("--identity-certificates"));
  std::ofstream(path) << "nothing";
  EXPECT_THAT(why(), HasSubstr("no certificate"));
  std::ofstream(path) << region().certificate();
  EXPECT_EQ(why(), "");
}

}  // namespace
}  // namespace warmroot::manager
