// SQS of the simulated region: standard queues under the region's time, and their JSON 1.0
// protocol (reference ec2.md 8.2, botocore's sqs model). A receive answers with what is there;
// waiting for more is the door's part. The event bus (event_bus.hpp) puts messages in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/region.hpp"

namespace warmroot::sim {

struct SqsReply {
  int status = 200;
  std::string body;  ///< JSON
  std::string code;  ///< "QueueDoesNotExist"; empty on success
  std::string request_id;
  bool empty_receive = false;  ///< a receive that found nothing: worth waiting
  Milliseconds wait{0};        ///< for so long at most, by the request or the queue
};

class Sqs {
 public:
  /// `base_url` is what queue URLs begin with ("http://127.0.0.1:8080"); `region` must outlive it.
  Sqs(Region& region, std::string base_url);

  void set_base_url(std::string url) { base_url_ = std::move(url); }
  /// Makes the queue unless it is there; returns its URL.
  std::string create_queue(const std::string& name);
  /// Puts a message in, from any producer. Ignored where there is no such queue.
  void send(const std::string& name, const std::string& body);
  /// Messages that are not deleted, in flight or not.
  std::size_t size(const std::string& name) const;
  /// Messages in flight.
  std::size_t in_flight(const std::string& name) const;

  /// One request: `target` is the X-Amz-Target header, "AmazonSQS.ReceiveMessage". Never fails:
  /// every trouble is an answer of SQS's.
  SqsReply answer(const std::string& target, const std::string& body);
  /// SQS's error document. `code` is the shape's name; `status` 400 unless said.
  SqsReply error(const std::string& code, const std::string& message, int status = 400);

  /// So many of the next deletes report success and delete nothing: a message can come again.
  int deletes_that_fail = 0;
  /// Every receive hands out messages without hiding them: at-least-once at its worst.
  bool doubles = false;

 private:
  struct Message {
    std::string id;
    std::string body;
    std::string receipt;  ///< the newest; empty before the first receive
    Instant sent;
    Instant visible;
    std::optional<Instant> first_received;
    int received = 0;
  };
  struct Queue {
    std::map<std::string, std::string> attributes;
    std::vector<Message> messages;
  };
  struct Call;

  Queue* queue_at(const std::string& url);
  SqsReply ok(const std::string& body);
  SqsReply receive(Queue& queue, const Call& call);
  SqsReply remove_batch(Queue& queue, const Call& call);
  SqsReply change_visibility(Queue& queue, const Call& call);
  SqsReply attributes(const Queue& queue, const std::string& name);
  void remove(Queue& queue, const std::string& receipt);
  std::string url_of(const std::string& name) const;

  Region& region_;
  std::string base_url_;
  std::map<std::string, Queue> queues_;
  std::uint64_t last_number_ = 0;
};

}  // namespace warmroot::sim
