#include "tests/json_decoders.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

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

constexpr std::size_t kFileBytes = std::size_t{100} << 20;  ///< nothing bounds a file
constexpr std::size_t kHeldBytes = std::size_t{4} << 20;    ///< of a record of a held volume
/// For an answer over a socket beside other work.
constexpr Milliseconds kPatience{120'000};

template <typename T>
Outcome outcome_of(const Result<T>& result) {
  return {result.has_value(), result ? "" : result.error().message()};
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
  const auto refusal = [](const std::string& text) {
    return Outcome{!bootstrap::refusal_reason(text).empty(), ""};
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
      {"report_refusal",
       manager::error_answer("volume vol-1 is another instance's by now"),
       refusal,
       {"", "/error"},
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

}  // namespace

std::vector<Decoder> all_decoders() {
  std::vector<Decoder> all;
  for (auto part : {of_sqs(), of_errors(), of_credentials(), of_the_manager(), of_the_bootstrap()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace warmroot
