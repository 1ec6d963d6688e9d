// See the header.
#include "manager/aws/sqs.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "manager/aws/json_error.hpp"
#include "manager/aws/partition.hpp"

namespace warmroot::aws {
namespace {

using nlohmann::json;

/// SQS's messages are at most 1 MiB; ten of them and their frames.
constexpr std::size_t kMaxMessagesReply = 16 << 20;

/// The type of an error, or the older protocol's code, which the query-compatible header repeats.
std::string bare_code(std::string code) {
  code = bare_error_type(std::move(code));
  if (const auto dot = code.rfind('.'); dot != std::string::npos) code.erase(0, dot + 1);
  return code == "NonExistentQueue" ? "QueueDoesNotExist" : code;
}

ErrorKind sqs_kind_of(int status, const std::string& code) {
  static const std::set<std::string> kMisconfigured = {
      "QueueDoesNotExist", "InvalidAddress", "InvalidSecurity", "UnsupportedOperation",
      "KmsDisabled",       "KmsNotFound",    "KmsInvalidState", "KmsInvalidKeyUsage"};
  if (kMisconfigured.contains(code)) return ErrorKind::misconfigured;
  if (is_denial(code) || code == "KmsAccessDenied") return ErrorKind::unauthorised;
  if (status >= 500 || code.find("Throttl") != std::string::npos || code == "OverLimit")
    return ErrorKind::retry_later;
  return ErrorKind::refused;
}

/// The object of a successful reply.
Result<json> object_of(const HttpReply& reply, const char* action) {
  if (reply.status != 200) {
    const std::string code = sqs_code_of(reply);
    const json body = json::parse(reply.body.substr(0, kMaxMessagesReply), nullptr, false);
    std::string why = text_of(body, "message");
    if (why.empty()) why = text_of(body, "Message");
    Error error{
        sqs_kind_of(reply.status, code),
        std::string(action) + ": " + (why.empty() ? "HTTP " + std::to_string(reply.status) : why),
        code,
        {}};
    if (const auto id = reply.headers.find("x-amzn-requestid"); id != reply.headers.end())
      error.request_id = id->second;
    return fail(std::move(error));
  }
  if (reply.body.size() > kMaxMessagesReply)
    return fail(ErrorKind::broken, std::string(action) + ": the answer is too long");
  if (reply.body.empty()) return json::object();
  json body = json::parse(reply.body, nullptr, false);
  if (!body.is_object())
    return fail(ErrorKind::broken, std::string(action) + ": the answer is no JSON object");
  return body;
}

SqsCall call_of(const char* action, const json& members) {
  return {std::string("AmazonSQS.") + action, members.dump()};
}

}  // namespace

namespace {

/// sqs.REGION.SUFFIX, sqs-fips.REGION.SUFFIX, VPCE.sqs.REGION.vpce.SUFFIX, and the old
/// REGION.queue.SUFFIX and queue.SUFFIX, which is us-east-1's.
std::optional<std::string> region_in(const std::string& host) {
  std::vector<std::string> labels;
  for (std::size_t at = 0; at <= host.size();) {
    const auto dot = std::min(host.find('.', at), host.size());
    labels.push_back(host.substr(at, dot - at));
    at = dot + 1;
  }
  if (labels.front() == "queue") return "us-east-1";
  if (labels.size() > 2 && labels[1] == "queue") return labels[0];
  for (std::size_t i = 0; i + 1 < std::min<std::size_t>(labels.size(), 3); ++i)
    if (labels[i] == "sqs" || labels[i] == "sqs-fips") return labels[i + 1];
  return std::nullopt;
}

}  // namespace

Result<QueueAddress> parse_queue_url(const std::string& url, const std::string& region) {
  const auto wrong = [&] {
    return fail(ErrorKind::misconfigured, "\"" + url +
                                              "\" is no queue's URL, write it as SQS shows it: "
                                              "https://sqs.REGION.amazonaws.com/ACCOUNT/NAME");
  };
  const auto scheme = url.find("://");
  if (scheme == std::string::npos) return wrong();
  const auto path = url.find('/', scheme + 3);
  if (path == std::string::npos || url.find_first_of("?# \t\n\"") != std::string::npos)
    return wrong();
  const auto name = url.find('/', path + 1);
  if (name == std::string::npos || name == path + 1 || name + 1 == url.size() ||
      url.find('/', name + 1) != std::string::npos)
    return wrong();
  QueueAddress address;
  address.url = url;
  auto endpoint = parse_endpoint(url.substr(0, path));
  if (!endpoint) return wrong();
  address.endpoint = std::move(*endpoint);
  address.region = region;
  if (is_aws_host(address.endpoint.host))
    address.region = region_in(address.endpoint.host).value_or(region);
  return address;
}

SqsCall encode_receive(const std::string& queue_url, std::chrono::seconds wait,
                       std::chrono::seconds visibility) {
  return call_of("ReceiveMessage", {{"QueueUrl", queue_url},
                                    {"MaxNumberOfMessages", kMostMessages},
                                    {"WaitTimeSeconds", wait.count()},
                                    {"VisibilityTimeout", visibility.count()}});
}

SqsCall encode_delete(const std::string& queue_url, std::span<const std::string> receipts) {
  CHECK(!receipts.empty() && receipts.size() <= kMostMessages);
  json entries = json::array();
  for (const auto& receipt : receipts)
    entries.push_back({{"Id", std::to_string(entries.size())}, {"ReceiptHandle", receipt}});
  return call_of("DeleteMessageBatch", {{"QueueUrl", queue_url}, {"Entries", entries}});
}

SqsCall encode_attributes(const std::string& queue_url) {
  return call_of("GetQueueAttributes",
                 {{"QueueUrl", queue_url}, {"AttributeNames", {"VisibilityTimeout"}}});
}

std::string sqs_code_of(const HttpReply& reply) {
  if (reply.status == 200) return {};
  if (const auto header = reply.headers.find("x-amzn-errortype"); header != reply.headers.end())
    return bare_code(header->second);
  const json body = json::parse(reply.body.substr(0, kMaxMessagesReply), nullptr, false);
  if (body.is_object())
    for (const char* member : {"__type", "code"})
      if (auto code = text_of(body, member); !code.empty()) return bare_code(std::move(code));
  if (const auto old = reply.headers.find("x-amzn-query-error"); old != reply.headers.end())
    return bare_code(old->second.substr(0, old->second.find(';')));
  return "HTTP" + std::to_string(reply.status);
}

Result<std::vector<QueueMessage>> decode_receive(const HttpReply& reply) {
  TRY_ASSIGN(const json body, object_of(reply, "ReceiveMessage"));
  std::vector<QueueMessage> messages;
  const auto list = body.find("Messages");
  if (list == body.end() || list->is_null()) return messages;  // absent when there are none
  if (!list->is_array()) return fail(ErrorKind::broken, "ReceiveMessage: Messages is no list");
  for (const json& item : *list) {
    if (!item.is_object()) return fail(ErrorKind::broken, "ReceiveMessage: a message is no object");
    QueueMessage message{text_of(item, "MessageId"), text_of(item, "ReceiptHandle"),
                         text_of(item, "Body")};
    if (message.receipt.empty())
      return fail(ErrorKind::broken, "ReceiveMessage: a message without its ReceiptHandle");
    messages.push_back(std::move(message));
  }
  return messages;
}

Result<std::vector<std::size_t>> decode_delete(const HttpReply& reply, std::size_t count) {
  TRY_ASSIGN(const json body, object_of(reply, "DeleteMessageBatch"));
  std::set<std::size_t> left;
  for (std::size_t at = 0; at < count; ++at) left.insert(at);
  if (const auto list = body.find("Successful"); list != body.end() && list->is_array())
    for (const json& item : *list) {
      const std::string id = item.is_object() ? text_of(item, "Id") : "";
      std::size_t at = count;
      std::from_chars(id.data(), id.data() + id.size(), at);
      left.erase(at);
    }
  return std::vector<std::size_t>(left.begin(), left.end());
}

Ok decode_attributes(const HttpReply& reply) {
  TRY(object_of(reply, "GetQueueAttributes"));
  return {};
}

}  // namespace warmroot::aws
