// Every JSON that the manager and the bootstrap read, held to the same table of bad input: cut off
// anywhere, nested a hundred thousand deep, padded up to what its transport lets through, and with
// each member of each wrong type. Each is read or refused with a sentence, and soon. What the
// decoders make of good input is the business of their own tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "bootstrap/documents.hpp"
#include "bootstrap/held_volume.hpp"
#include "bootstrap/ticket.hpp"
#include "manager/aws/account_facts.hpp"
#include "manager/aws/credentials_json.hpp"
#include "manager/aws/ebs_direct.hpp"
#include "manager/aws/sqs.hpp"
#include "manager/event_envelope.hpp"
#include "manager/identity.hpp"
#include "manager/order_socket.hpp"
#include "manager/reports.hpp"
#include "manager/reports_codec.hpp"
#include "manager/user_data.hpp"
#include "tests/sim/instance_identity.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot {
namespace {

using nlohmann::json;

/// What http.cpp takes of an answer before it gives up; see http_transport_test.
constexpr std::size_t kHttpBytes = std::size_t{32} << 20;
constexpr std::size_t kFileBytes = std::size_t{100} << 20;  ///< nothing bounds a file
constexpr std::size_t kHeldBytes = std::size_t{4} << 20;    ///< of a record of a held volume
constexpr int kNested = 100'000;
/// CPU time of one decoding, under the address sanitizer; most take milliseconds.
constexpr double kMostSeconds = 20;
/// For an answer over a socket beside other work.
constexpr Milliseconds kPatience{120'000};
/// A sentence is for people.
constexpr std::size_t kLongestSentence = 600;

/// Whether it was taken for what it should be, or why not. Lenient decoders have no sentence.
struct Outcome {
  bool read = false;
  std::string why;
};

template <typename T>
Outcome outcome_of(const Result<T>& result) {
  return {result.has_value(), result ? "" : result.error().message()};
}

struct Decoder {
  const char* name;
  std::string good;
  std::function<Outcome(const std::string&)> decode;
  /// JSON pointers of members that must be refused when of another type than the good one's;
  /// everything else may be read as if it were not there.
  std::set<std::string> strict;
  std::set<std::string> may_be_null{};  ///< of the strict ones
  std::size_t most_bytes = kHttpBytes;  ///< that its transport lets through
  bool lenient = false;                 ///< refuses without a word: nothing was asked for
  bool empty_is_good = false;
};

void PrintTo(const Decoder& decoder, std::ostream* out) {
  *out << decoder.name;
}

HttpReply reply_of(int status, const std::string& body) {
  return {status, {}, body};
}

constexpr Instant kNow{std::chrono::hours{24 * 20'000}};
constexpr const char* kSsoFile =
    R"({"accessToken":"t0","expiresAt":"2026-01-02T03:04:05Z","refreshToken":"r0",
        "clientId":"c","clientSecret":"s","registrationExpiresAt":"2026-03-02T03:04:05Z"})";
constexpr const char* kSsoReply = R"({"accessToken":"t1","expiresIn":3600,"refreshToken":"r1"})";
constexpr const char* kKeys =
    R"({"Version":1,"Code":"Success","AccessKeyId":"AK","SecretAccessKey":"S",)"
    R"("SessionToken":"T","Token":"T","Expiration":"2026-01-02T03:04:05Z"})";
constexpr const char* kEnvelope =
    R"({"version":"0","id":"e-1","detail-type":"EC2 Instance State-change Notification",)"
    R"("source":"aws.ec2","account":"111122223333","time":"2026-01-02T03:04:05Z",)"
    R"("region":"us-east-1","resources":["arn:aws:ec2:us-east-1:111122223333:instance/i-1"],)"
    R"("detail":{"instance-id":"i-0123456789abcdef0","state":"stopping"}})";
constexpr const char* kError =
    R"({"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no such queue","Reason":"R"})";

/// A status document as the bootstrap writes it.
std::string status_document() {
  bootstrap::Status status;
  status.instance_id = "i-0123456789abcdef0";
  status.deployment = "research";
  status.pool = "imagenet";
  status.node = "imagenet-0";
  status.volume_id = "vol-1";
  status.remarks = {"a remark"};
  bootstrap::TimedStep step;
  step.name = "mount";
  step.detail = "ext4";
  status.steps.push_back(step);
  status.ebs.emplace();
  return bootstrap::status_document(status);
}

std::string held_record() {
  bootstrap::HeldRecord record;
  record.volume.also_mounted = {"srv"};
  record.volume.other_devices = {66307};
  record.volume.fstab = {{"/data is not mounted", true}};
  record.leaving = bootstrap::StopReason{"operator", "words", 4711};
  return bootstrap::held_document(record);
}

std::string report() {
  bootstrap::Status status;
  status.instance_id = "i-0123456789abcdef0";
  status.volume_id = "vol-1";
  return bootstrap::report_body(status, bootstrap::Stage::ready, "manager-wish", "words");
}

std::string ticket() {
  manager::Ticket ticket;
  ticket.deployment = "research";
  ticket.pool = "imagenet";
  ticket.manager_url = "http://10.0.0.5:8470";
  ticket.rescue_port = 2222;
  ticket.login_wait_s = 90;
  ticket.release_wishes = {std::chrono::seconds(60), std::chrono::seconds(10)};
  ticket.write_mib_s = 250;
  return manager::to_json(ticket);
}

/// Every line that a peer may say to `serve`, by a real socket of its own.
class Serving {
 public:
  Outcome say(const std::string& text) {
    const UniqueFd peer = connect();
    const std::string last = std::to_string(++last_);
    const std::string all = text + "\n{\"order\":" + last + "}\n";
    for (std::size_t done = 0; done < all.size();) {
      const auto sent = ::send(peer.get(), all.data() + done, all.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) break;
      done += static_cast<std::size_t>(sent);
    }
    while (!socket_->awaited().contains(last_)) {
      pollfd polled{peer.get(), POLLIN, 0};
      if (::poll(&polled, 1, 1) > 0) return {false, "the connection is ended"};
    }
    return {true, ""};
  }

 private:
  UniqueFd connect() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (directory_.path() + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
    CHECK(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return fd;
  }
  TemporaryDirectory directory_;
  std::int64_t last_ = 1'000;
  std::unique_ptr<manager::OrderSocket> socket_ =
      std::move(*manager::OrderSocket::listen(directory_.path(), [] {}));
};

/// A `serve` that answers a command with whatever it likes.
Outcome told(const std::string& text) {
  const TemporaryDirectory directory;
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (directory.path() + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  CHECK(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  CHECK(::listen(listener.get(), 1) == 0);
  auto connection = manager::OrderConnection::open(directory.path());
  CHECK(connection.has_value());
  UniqueFd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::jthread speaker([&] {
    const std::string all = text + "\n";
    for (std::size_t done = 0; done < all.size();) {
      const auto sent = ::send(peer.get(), all.data() + done, all.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) return;
      done += static_cast<std::size_t>(sent);
    }
  });
  const auto answer = connection->next(kPatience);
  { const auto ended = std::move(*connection); }  // whoever still speaks hears it
  if (!answer) return {false, answer.error().message()};
  return {answer->has_value(), "no answer"};
}

Outcome identity(const std::string& document) {
  static sim::IdentitySigner signer(1024);
  static const auto certificates = *manager::IdentityCertificates::parse(signer.certificate());
  // Nothing cannot be signed.
  return outcome_of(
      manager::verify_identity(certificates, signer.sign(document.empty() ? " " : document)));
}

template <auto parse>
Outcome text_outcome(const std::string& text) {
  return outcome_of(parse(text));
}

std::vector<Decoder> of_sqs() {
  const std::string messages = R"({"Messages":[{"MessageId":"m","ReceiptHandle":"r","Body":"b"}]})";
  return {
      {"sqs_receive",
       messages,
       [](const auto& text) { return outcome_of(aws::decode_receive(reply_of(200, text))); },
       {"", "/Messages", "/Messages/0", "/Messages/0/ReceiptHandle"},
       {"/Messages"},
       kHttpBytes,
       false,
       true},
      {"sqs_delete",
       R"({"Successful":[{"Id":"0"}],"Failed":[]})",
       [](const auto& text) { return outcome_of(aws::decode_delete(reply_of(200, text), 1)); },
       {""},
       {},
       kHttpBytes,
       false,
       true},
      {"sqs_attributes",
       R"({"Attributes":{"VisibilityTimeout":"60"}})",
       [](const auto& text) { return outcome_of(aws::decode_attributes(reply_of(200, text))); },
       {""},
       {},
       kHttpBytes,
       false,
       true},
      {"event",
       kEnvelope,
       text_outcome<manager::parse_envelope>,
       {"", "/detail-type", "/time", "/detail", "/detail/instance-id"}},
      {"event_by_sns",
       json{{"Type", "Notification"}, {"Message", kEnvelope}}.dump(),
       text_outcome<manager::parse_envelope>,
       {"", "/Message", "/Type"}},
  };
}

/// An answer with an error's status is an error whatever its body: "read" is that its code is.
std::vector<Decoder> of_errors() {
  const auto code = [](const std::string& found, const char* wanted) {
    return Outcome{found == wanted, found.empty() ? "" : "code " + found};
  };
  return {
      {"sqs_error",
       kError,
       [code](const auto& text) {
         const auto refused = aws::decode_receive(reply_of(400, text));
         CHECK(!refused && !refused.error().message().empty());
         return code(refused.error().code, "QueueDoesNotExist");
       },
       {"", "/__type"}},
      {"ebs_error",
       kError,
       [code](const auto& text) {
         const auto refused = aws::decode_snapshot_blocks(reply_of(400, text));
         CHECK(!refused && !refused.error().message().empty());
         return code(refused.error().code, "QueueDoesNotExist.R");
       },
       {"", "/__type", "/Reason"}},
  };
}

std::vector<Decoder> of_credentials() {
  const std::string sso =
      R"({"roleCredentials":{"accessKeyId":"AK","secretAccessKey":"S","sessionToken":"T",)"
      R"("expiration":1767323045000}})";
  return {
      {"process",
       kKeys,
       text_outcome<aws::parse_process_credentials>,
       {"", "/Version", "/AccessKeyId", "/SecretAccessKey", "/Expiration"},
       {"/Expiration"}},
      {"container_and_instance",
       kKeys,
       text_outcome<aws::parse_metadata_credentials>,
       {"", "/AccessKeyId", "/SecretAccessKey", "/Expiration"},
       {"/Expiration"}},
      {"sso_credentials",
       sso,
       text_outcome<aws::parse_sso_credentials>,
       {"", "/roleCredentials", "/roleCredentials/accessKeyId", "/roleCredentials/secretAccessKey",
        "/roleCredentials/expiration"}},
      {"sso_token",
       kSsoFile,
       text_outcome<aws::parse_sso_token>,
       {"", "/accessToken", "/expiresAt"},
       {},
       kFileBytes},
      {"sso_renewal",
       kSsoReply,
       [](const auto& text) { return outcome_of(aws::renewed_sso_token(kSsoFile, text, kNow)); },
       {"", "/accessToken", "/expiresIn"}},
      {"sso_renewed_file",
       kSsoFile,
       [](const auto& text) { return outcome_of(aws::renewed_sso_token(text, kSsoReply, kNow)); },
       {""},
       {},
       kFileBytes},
  };
}

std::vector<Decoder> of_the_manager() {
  static const auto serving = std::make_shared<Serving>();
  const std::string hello =
      R"({"version":1,"instance_id":"i-1","deployment":"d","pool":"p","identity":"abc"})";
  const std::string document =
      R"({"accountId":"111122223333","imageId":"ami-1","instanceId":"i-1",)"
      R"("instanceType":"g5.xlarge","privateIp":"10.0.0.5","region":"us-east-1"})";
  const std::string blocks =
      R"({"BlockSize":524288,"VolumeSize":4,"NextToken":"n","Blocks":[{"BlockIndex":0,)"
      R"("BlockToken":"x"},{"BlockIndex":7,"BlockToken":"y"}]})";
  return {
      {"snapshot_blocks",
       blocks,
       [](const auto& text) {
         return outcome_of(aws::decode_snapshot_blocks(reply_of(200, text)));
       },
       {"", "/BlockSize", "/VolumeSize", "/Blocks", "/Blocks/0", "/Blocks/0/BlockIndex"},
       {"/Blocks"}},
      {"service_quota",
       R"({"Quota":{"QuotaCode":"L-34B43A08","Value":64.0}})",
       [](const auto& text) { return outcome_of(aws::decode_service_quota(reply_of(200, text))); },
       {"", "/Quota"}},
      {"kms_key",
       R"({"KeyMetadata":{"Arn":"arn:aws:kms:us-east-1:111122223333:key/k",)"
       R"("KeyState":"Enabled","KeyUsage":"ENCRYPT_DECRYPT","KeySpec":"SYMMETRIC_DEFAULT"}})",
       [](const auto& text) { return outcome_of(aws::decode_key(reply_of(200, text))); },
       {"", "/KeyMetadata", "/KeyMetadata/KeyState", "/KeyMetadata/KeyUsage"}},
      {"hello",
       hello,
       text_outcome<manager::parse_hello>,
       {"", "/version", "/instance_id", "/deployment", "/pool", "/identity"},
       {"/identity"},
       manager::kMaxReportBytes},
      {"report",
       report(),
       text_outcome<manager::parse_report>,
       {"", "/version", "/instance_id", "/volume_id", "/stage", "/message"},
       {"/volume_id", "/message"},
       manager::kMaxReportBytes},
      {"identity_document",
       document,
       identity,
       {"", "/instanceId", "/accountId", "/region"},
       {},
       manager::kMaxIdentityCharacters},
      {"order",
       R"({"order":12})",
       [](const auto& text) { return serving->say(text); },
       {"", "/order"},
       {},
       kFileBytes},
      {"order_answer",
       R"({"order":12,"met":true,"answer":"i-1 is released"})",
       told,
       {"", "/order", "/met", "/answer"},
       {},
       kFileBytes},
  };
}

std::vector<Decoder> of_the_bootstrap() {
  const auto wishes = [](const std::string& text) {
    const auto found = bootstrap::parse_wishes(text);
    return Outcome{found.drain && found.volume_id && found.snapshot_id, ""};
  };
  const auto notice = [](const std::string& text) {
    return Outcome{bootstrap::parse_instance_action(text).has_value(), ""};
  };
  const auto hint = [](const std::string& text) {
    return Outcome{bootstrap::parse_rebalance(text).has_value(), ""};
  };
  const auto fields = [](const std::string& text) {
    return Outcome{!bootstrap::status_fields(text).instance_id.empty(), ""};
  };
  return {
      {"ticket",
       ticket(),
       text_outcome<bootstrap::parse_ticket>,
       {"", "/version", "/deployment", "/pool", "/manager_url", "/warm", "/warm/enabled",
        "/warm/record", "/warm/max_depth", "/session", "/session/entry", "/session/host_keys",
        "/session/rescue_port", "/session/login_wait_s", "/session/write_mib_s", "/session/grace_s",
        "/session/hooks_s"},
       {"/manager_url"}},
      {"hello_answer",
       manager::hello_answer(Secret("ab"), "imagenet-0", "vol-1"),
       text_outcome<bootstrap::parse_hello_answer>,
       {"", "/key"}},
      {"wishes",
       manager::report_answer(true, "vol-1", "snap-1", ""),
       wishes,
       {"", "/wishes", "/wishes/drain", "/wishes/volume_id", "/wishes/snapshot_id"},
       {},
       kHttpBytes,
       true},
      {"spot_notice",
       R"({"action":"terminate","time":"2026-01-02T03:06:05Z"})",
       notice,
       {"", "/action"},
       {},
       kHttpBytes,
       true},
      {"rebalance_hint",
       R"({"noticeTime":"2026-01-02T03:04:05Z"})",
       hint,
       {"", "/noticeTime"},
       {},
       kHttpBytes,
       true},
      {"status_text",
       status_document(),
       text_outcome<bootstrap::status_text>,
       {""},
       {},
       kFileBytes},
      {"status_fields", status_document(), fields, {"", "/instance_id"}, {}, kFileBytes, true},
      {"held_record",
       held_record(),
       text_outcome<bootstrap::parse_held_document>,
       {"",
        "/disk_node",
        "/disk",
        "/disk_number",
        "/disk_sequence",
        "/partition_node",
        "/partition",
        "/partition/number",
        "/partition/offset_bytes",
        "/partition/size_bytes",
        "/also_mounted",
        "/also_mounted/0",
        "/other_devices",
        "/other_devices/0",
        "/root_device",
        "/served_by",
        "/fstab/0",
        "/fstab/0/text",
        "/fstab/0/for_people",
        "/leaving",
        "/leaving/word",
        "/leaving/sentence",
        "/leaving/deadline_ms"},
       {},
       kHeldBytes},
  };
}

std::vector<Decoder> all_decoders() {
  std::vector<Decoder> all;
  for (auto part : {of_sqs(), of_errors(), of_credentials(), of_the_manager(), of_the_bootstrap()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// "" and every member below.
void pointers_in(const json& value, const std::string& at, std::vector<std::string>& found) {
  found.push_back(at);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) {
      std::string escaped;
      for (const char c : key) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      pointers_in(member, at + "/" + escaped, found);
    }
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i)
      pointers_in(value[i], at + "/" + std::to_string(i), found);
}

/// Two of each type: what is empty is not what has something in it.
const std::vector<json>& of_every_type() {
  static const std::vector<json> values = {nullptr,
                                           true,
                                           false,
                                           -1,
                                           0,
                                           1.5,
                                           1e300,
                                           18'446'744'073'709'551'615U,
                                           "",
                                           "text",
                                           json::array(),
                                           json::array({json::array({1})}),
                                           json::object(),
                                           {{"a", {{"b", nullptr}}}}};
  return values;
}

bool same_type(const json& one, const json& other) {
  return one.type() == other.type() || (one.is_number_integer() && other.is_number_integer());
}

std::string nested(int depth, const char* open, const char* close, const char* inside) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += inside;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

class JsonDecoder : public ::testing::TestWithParam<Decoder> {
 protected:
  /// Decodes, and holds whatever comes of it to what is asked of all.
  Outcome decode(const std::string& text, const std::string& what) {
    const std::clock_t began = std::clock();
    const Outcome outcome = GetParam().decode(text);
    EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, kMostSeconds) << what;
    EXPECT_LE(outcome.why.size(), kLongestSentence) << what;
    if (!outcome.read && !GetParam().lenient) {
      EXPECT_NE(outcome.why, "") << what;
    }
    return outcome;
  }
  void expect_refused(const std::string& text, const std::string& what) {
    EXPECT_FALSE(decode(text, what).read) << what << " is taken for good";
  }
};

TEST_P(JsonDecoder, reads_what_is_good) {
  const auto outcome = decode(GetParam().good, "the good one");
  EXPECT_TRUE(outcome.read) << outcome.why;
}

TEST_P(JsonDecoder, refuses_whatever_is_cut_off) {
  std::string good = GetParam().good;
  while (good.ends_with('\n')) good.pop_back();
  for (std::size_t size = GetParam().empty_is_good ? 1 : 0; size < good.size(); ++size)
    expect_refused(good.substr(0, size), "the first " + std::to_string(size) + " bytes");
}

TEST_P(JsonDecoder, refuses_what_is_nested_a_hundred_thousand_deep) {
  expect_refused(std::string(kNested, '['), "100,000 brackets");
  expect_refused(nested(kNested, "[", "]", ""), "100,000 brackets that are closed");
  expect_refused(nested(kNested, "{\"a\":", "", ""), "100,000 braces");
}

TEST_P(JsonDecoder, bears_depth_in_place_of_every_member) {
  const json good = json::parse(GetParam().good);
  std::vector<std::string> pointers;
  pointers_in(good, "", pointers);
  for (const int depth : {200, 8'000, 32'000, kNested}) {
    for (const auto& pointer : pointers) {
      json changed = good;
      changed[json::json_pointer(pointer)] = "@@";
      std::string text = changed.dump();
      text.replace(text.find("\"@@\""), 4, nested(depth, "[", "]", "0"));
      const auto outcome = decode(text, pointer + " nested " + std::to_string(depth));
      if (GetParam().strict.contains(pointer)) {
        EXPECT_FALSE(outcome.read) << pointer;
      }
    }
    json more = good;
    more["zz"] = "@@";
    std::string text = more.dump();
    text.replace(text.find("\"@@\""), 4, nested(depth, "{\"a\":", "}", "0"));
    decode(text, "a member that nobody knows, nested " + std::to_string(depth));
  }
}

TEST_P(JsonDecoder, bears_padding_up_to_what_its_transport_lets_through) {
  const std::size_t most = std::min(GetParam().most_bytes, std::size_t{100} << 20);
  const std::string& good = GetParam().good;
  decode("{" + std::string(most - good.size(), ' ') + good.substr(1), "spaces");
  std::string text = "{\"zz\":\"";
  text.append(most - good.size() - text.size() - 2, 'x');
  decode(text + "\"," + good.substr(1), "a long member that nobody knows");
}

TEST_P(JsonDecoder, refuses_or_overlooks_members_of_a_wrong_type) {
  const json good = json::parse(GetParam().good);
  std::vector<std::string> pointers;
  pointers_in(good, "", pointers);
  for (const auto& strict : GetParam().strict)
    EXPECT_TRUE(good.contains(json::json_pointer(strict))) << "the good one has no " << strict;
  for (const auto& pointer : pointers)
    for (const auto& value : of_every_type()) {
      const json::json_pointer at(pointer);
      json changed = good;
      changed[at] = value;
      const std::string what = pointer + " = " + value.dump();
      const auto outcome = decode(changed.dump(), what);
      const bool wrong = !same_type(good[at], value);
      const bool tolerated = value.is_null() && GetParam().may_be_null.contains(pointer);
      if (wrong && !tolerated && GetParam().strict.contains(pointer)) {
        EXPECT_FALSE(outcome.read) << what << " is taken for good";
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, JsonDecoder, ::testing::ValuesIn(all_decoders()),
                         [](const auto& decoder) { return std::string(decoder.param.name); });

}  // namespace
}  // namespace warmroot
