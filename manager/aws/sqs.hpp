// SQS as far as the manager needs it: the JSON 1.0 bodies of three calls, pure. Source: reference
// ec2.md 8.2, botocore's sqs model. sqs_client.hpp sends them; manager/events.hpp knows what the
// messages mean.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"
#include "manager/aws/endpoint.hpp"

namespace warmroot::aws {

/// SQS's own bounds.
inline constexpr int kMostMessages = 10;
inline constexpr std::chrono::seconds kLongestWait{20};

struct SqsCall {
  std::string target;  ///< the X-Amz-Target header
  std::string body;
};

struct QueueMessage {
  std::string message_id;
  std::string receipt;  ///< what a delete names; only the newest of a message counts
  std::string body;
};

/// Where a queue is, from its URL.
struct QueueAddress {
  std::string url;  ///< as written: the calls name it
  Endpoint endpoint;
  std::string region;  ///< that requests are signed for
};

/// Errors: misconfigured when it is no queue's URL. `region` is taken where the host does not say.
Result<QueueAddress> parse_queue_url(const std::string& url, const std::string& region);

SqsCall encode_receive(const std::string& queue_url, std::chrono::seconds wait,
                       std::chrono::seconds visibility);
SqsCall encode_delete(const std::string& queue_url, std::span<const std::string> receipts);
SqsCall encode_attributes(const std::string& queue_url);

/// SQS's code of an error reply ("QueueDoesNotExist"), without its namespace; empty on success.
std::string sqs_code_of(const HttpReply& reply);

/// Errors: unauthorised, misconfigured (no such queue), retry_later (throttles, 5xx), broken.
Result<std::vector<QueueMessage>> decode_receive(const HttpReply& reply);
/// The places in `receipts` of what was not deleted. Errors: as decode_receive().
Result<std::vector<std::size_t>> decode_delete(const HttpReply& reply, std::size_t count);
/// Only whether the queue can be read. Errors: as decode_receive().
Ok decode_attributes(const HttpReply& reply);

}  // namespace warmroot::aws
