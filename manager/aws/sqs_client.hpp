// Sends SQS calls over signed HTTP with the connection's credentials. Each thread that talks to a
// queue has its own client.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "manager/aws/signed_http.hpp"
#include "manager/aws/sqs.hpp"

namespace warmroot::aws {

/// One thread.
class SqsClient {
 public:
  /// Shares the connection's credentials, which outlive it. `give_up` ends a call under way.
  SqsClient(QueueAddress queue, const Connection& connection, const std::atomic<bool>* give_up);

  /// Up to ten messages; waits so long for the first. What it gives is hidden from others for
  /// `visibility`. Errors: those of decode_receive() and HttpClient.
  Result<std::vector<QueueMessage>> receive(std::chrono::seconds wait,
                                            std::chrono::seconds visibility);
  /// Deletes up to ten; the places of those that were not. Errors: as receive().
  Result<std::vector<std::size_t>> remove(std::span<const std::string> receipts);
  /// Whether the queue is there and may be read. Errors: as receive().
  Ok probe();

 private:
  Result<HttpReply> post(const SqsCall& call, Milliseconds timeout);

  std::string queue_url_;
  SignedHttp http_;
};

}  // namespace warmroot::aws
