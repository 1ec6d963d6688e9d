// See the header.
#include "manager/aws/sqs_client.hpp"

namespace warmroot::aws {
namespace {

constexpr const char* kJsonType = "application/x-amz-json-1.0";
/// Of a call that does not wait, and beyond the wait of one that does.
constexpr Milliseconds kCallTimeout{10'000};

}  // namespace

SqsClient::SqsClient(QueueAddress queue, const Connection& connection,
                     const std::atomic<bool>* give_up)
    : queue_url_(std::move(queue.url)),
      http_({std::move(queue.endpoint), std::move(queue.region)}, "sqs", connection, give_up) {}

Result<HttpReply> SqsClient::post(const SqsCall& call, Milliseconds timeout) {
  return http_.send(
      {"POST", "/", {}, {{"content-type", kJsonType}, {"x-amz-target", call.target}}, call.body},
      timeout, sqs_code_of);
}

Result<std::vector<QueueMessage>> SqsClient::receive(std::chrono::seconds wait,
                                                     std::chrono::seconds visibility) {
  TRY_ASSIGN(const HttpReply reply,
             post(encode_receive(queue_url_, wait, visibility), kCallTimeout + wait));
  return decode_receive(reply);
}

Result<std::vector<std::size_t>> SqsClient::remove(std::span<const std::string> receipts) {
  TRY_ASSIGN(const HttpReply reply, post(encode_delete(queue_url_, receipts), kCallTimeout));
  return decode_delete(reply, receipts.size());
}

Ok SqsClient::probe() {
  TRY_ASSIGN(const HttpReply reply, post(encode_attributes(queue_url_), kCallTimeout));
  return decode_attributes(reply);
}

}  // namespace warmroot::aws
