// See the header.
#include "tests/sim/sqs.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace warmroot::sim {

namespace {

using nlohmann::json;

constexpr int kMostAtOnce = 10;            // ReceiveMessage and batches
constexpr int kLongestWait = 20;           // WaitTimeSeconds
constexpr int kLongestVisibility = 43200;  // VisibilityTimeout

std::string md5_hex(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_md5(), nullptr);
  std::string hex;
  char pair[3];
  for (unsigned int at = 0; at < size; ++at) {
    std::snprintf(pair, sizeof pair, "%02x", digest[at]);
    hex += pair;
  }
  return hex;
}

std::string epoch_ms(Instant time) {
  return std::to_string(time.time_since_epoch().count());
}

}  // namespace

/// The members of a request, read with their bounds.
struct Sqs::Call {
  json members;

  std::string text(const char* name) const {
    const auto found = members.find(name);
    return found != members.end() && found->is_string() ? found->get<std::string>() : "";
  }
  std::optional<int> number(const char* name) const {
    const auto found = members.find(name);
    if (found == members.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<int>();
  }
};

Sqs::Sqs(Region& region, std::string base_url) : region_(region), base_url_(std::move(base_url)) {}

std::string Sqs::url_of(const std::string& name) const {
  return base_url_ + "/" + region_.catalog().account_id + "/" + name;
}

std::string Sqs::create_queue(const std::string& name) {
  auto [queue, fresh] = queues_.try_emplace(name);
  if (fresh)
    queue->second.attributes = {{"VisibilityTimeout", "30"},
                                {"ReceiveMessageWaitTimeSeconds", "0"},
                                {"MessageRetentionPeriod", "345600"}};
  return url_of(name);
}

void Sqs::send(const std::string& name, const std::string& body) {
  const auto found = queues_.find(name);
  if (found == queues_.end()) return;
  char id[40];
  std::snprintf(id, sizeof id, "00000000-0000-4000-9000-%012llx",
                static_cast<unsigned long long>(++last_number_));
  found->second.messages.push_back({id, body, "", region_.now(), region_.now(), std::nullopt, 0});
}

std::size_t Sqs::size(const std::string& name) const {
  const auto found = queues_.find(name);
  return found == queues_.end() ? 0 : found->second.messages.size();
}

std::size_t Sqs::in_flight(const std::string& name) const {
  const auto found = queues_.find(name);
  if (found == queues_.end()) return 0;
  const auto& all = found->second.messages;
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const Message& one) { return one.visible > region_.now(); }));
}

SqsReply Sqs::error(const std::string& code, const std::string& message, int status) {
  SqsReply reply = ok(json{{"__type", "com.amazonaws.sqs#" + code}, {"message", message}}.dump());
  reply.status = status;
  reply.code = code;
  return reply;
}

SqsReply Sqs::ok(const std::string& body) {
  SqsReply reply;
  char id[40];
  std::snprintf(id, sizeof id, "00000000-0000-4000-a000-%012llx",
                static_cast<unsigned long long>(++last_number_));
  reply.request_id = id;
  reply.body = body;
  return reply;
}

Sqs::Queue* Sqs::queue_at(const std::string& url) {
  const auto slash = url.rfind('/');
  if (slash == std::string::npos) return nullptr;
  const auto found = queues_.find(url.substr(slash + 1));
  // The account stands before the name; the host may be any that leads here.
  const std::string account = "/" + region_.catalog().account_id;
  return found != queues_.end() && url.substr(0, slash).ends_with(account) ? &found->second
                                                                           : nullptr;
}

void Sqs::remove(Queue& queue, const std::string& receipt) {
  if (deletes_that_fail > 0) {
    --deletes_that_fail;
    return;
  }
  // An older receipt of a message that was received again deletes nothing.
  std::erase_if(queue.messages, [&](const Message& one) { return one.receipt == receipt; });
}

SqsReply Sqs::receive(Queue& queue, const Call& call) {
  const int most = call.number("MaxNumberOfMessages").value_or(1);
  const int wait = call.number("WaitTimeSeconds")
                       .value_or(std::stoi(queue.attributes["ReceiveMessageWaitTimeSeconds"]));
  const int hidden =
      call.number("VisibilityTimeout").value_or(std::stoi(queue.attributes["VisibilityTimeout"]));
  if (most < 1 || most > kMostAtOnce || wait < 0 || wait > kLongestWait || hidden < 0 ||
      hidden > kLongestVisibility)
    return error("InvalidParameterValue", "Value for a parameter of ReceiveMessage is invalid.");
  json messages = json::array();
  for (auto& one : queue.messages) {
    if (static_cast<int>(messages.size()) == most) break;
    if (one.visible > region_.now()) continue;
    if (!one.first_received) one.first_received = region_.now();
    ++one.received;
    if (!doubles) one.visible = region_.now() + std::chrono::seconds(hidden);
    one.receipt = one.id + "#" + std::to_string(one.received);
    messages.push_back({{"MessageId", one.id},
                        {"ReceiptHandle", one.receipt},
                        {"MD5OfBody", md5_hex(one.body)},
                        {"Body", one.body},
                        {"Attributes",
                         {{"SentTimestamp", epoch_ms(one.sent)},
                          {"ApproximateReceiveCount", std::to_string(one.received)},
                          {"ApproximateFirstReceiveTimestamp", epoch_ms(*one.first_received)}}}});
  }
  if (!messages.empty()) return ok(json{{"Messages", messages}}.dump());
  SqsReply reply = ok("{}");
  reply.empty_receive = true;
  reply.wait = std::chrono::seconds(wait);
  return reply;
}

SqsReply Sqs::remove_batch(Queue& queue, const Call& call) {
  const auto entries = call.members.value("Entries", json::array());
  if (entries.empty())
    return error("EmptyBatchRequest", "There should be at least one entry in the request.");
  if (entries.size() > kMostAtOnce)
    return error("TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10.");
  json done = json::array(), failed = json::array();
  for (const auto& entry : entries) {
    const Call one{entry};
    if (one.text("ReceiptHandle").empty()) {
      failed.push_back({{"Id", one.text("Id")},
                        {"Code", "ReceiptHandleIsInvalid"},
                        {"SenderFault", true},
                        {"Message", "The input receipt handle is invalid."}});
      continue;
    }
    remove(queue, one.text("ReceiptHandle"));
    done.push_back({{"Id", one.text("Id")}});
  }
  return ok(json{{"Successful", done}, {"Failed", failed}}.dump());
}

SqsReply Sqs::change_visibility(Queue& queue, const Call& call) {
  const auto hidden = call.number("VisibilityTimeout");
  if (!hidden || *hidden < 0 || *hidden > kLongestVisibility)
    return error("InvalidParameterValue", "Value for parameter VisibilityTimeout is invalid.");
  for (auto& one : queue.messages) {
    if (one.receipt != call.text("ReceiptHandle")) continue;
    if (one.visible <= region_.now())
      return error("MessageNotInflight", "The specified message isn't in flight.");
    one.visible = region_.now() + std::chrono::seconds(*hidden);
    return ok("{}");
  }
  return error("ReceiptHandleIsInvalid", "The input receipt handle is invalid.");
}

SqsReply Sqs::attributes(const Queue& queue, const std::string& name) {
  json out = queue.attributes;
  out["QueueArn"] =
      "arn:aws:sqs:" + region_.catalog().region + ":" + region_.catalog().account_id + ":" + name;
  out["ApproximateNumberOfMessages"] = std::to_string(size(name) - in_flight(name));
  out["ApproximateNumberOfMessagesNotVisible"] = std::to_string(in_flight(name));
  return ok(json{{"Attributes", out}}.dump());
}

SqsReply Sqs::answer(const std::string& target, const std::string& body) {
  constexpr std::string_view kPrefix = "AmazonSQS.";
  if (!target.starts_with(kPrefix))
    return error("UnknownOperationException", "There is no operation '" + target + "'.");
  const std::string action = target.substr(kPrefix.size());
  const Call call{json::parse(body.empty() ? "{}" : body, nullptr, false)};
  if (!call.members.is_object())
    return error("SerializationException", "The request is no JSON object.");
  const std::string name = call.text("QueueName");
  if (action == "CreateQueue") {
    const std::string url = create_queue(name);
    const auto given = call.members.value("Attributes", json::object());
    for (const auto& [key, value] : given.items())
      if (value.is_string()) queues_[name].attributes[key] = value.get<std::string>();
    return ok(json{{"QueueUrl", url}}.dump());
  }
  if (action == "GetQueueUrl" && queues_.contains(name))
    return ok(json{{"QueueUrl", url_of(name)}}.dump());
  if (action == "ListQueues") {
    json urls = json::array();
    for (const auto& [known, queue] : queues_) urls.push_back(url_of(known));
    return ok(json{{"QueueUrls", urls}}.dump());
  }
  const std::string url = call.text("QueueUrl");
  Queue* queue = queue_at(url);
  if (queue == nullptr) return error("QueueDoesNotExist", "The specified queue does not exist.");
  if (action == "ReceiveMessage") return receive(*queue, call);
  if (action == "DeleteMessageBatch") return remove_batch(*queue, call);
  if (action == "ChangeMessageVisibility") return change_visibility(*queue, call);
  if (action == "GetQueueAttributes") return attributes(*queue, url.substr(url.rfind('/') + 1));
  if (action == "DeleteMessage") {
    if (call.text("ReceiptHandle").empty())
      return error("ReceiptHandleIsInvalid", "The input receipt handle is invalid.");
    remove(*queue, call.text("ReceiptHandle"));
    return ok("{}");
  }
  if (action == "SendMessage") {
    send(url.substr(url.rfind('/') + 1), call.text("MessageBody"));
    return ok(json{{"MessageId", queue->messages.back().id},
                   {"MD5OfMessageBody", md5_hex(queue->messages.back().body)}}
                  .dump());
  }
  return error("UnsupportedOperation", action + " is not modelled by the simulated region.");
}

}  // namespace warmroot::sim
