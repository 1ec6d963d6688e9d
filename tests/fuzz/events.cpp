// What comes out of an SQS queue, which anybody with its address may have written: answers of SQS
// and EventBridge's envelopes. Any body is either read or refused; what is read is an instance's id
// and a time, and no time to come lets a message count for ever.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "manager/aws/sqs.hpp"
#include "manager/events.hpp"

using namespace warmroot;

namespace {

void read_message(const std::string& body) {
  const auto event = manager::parse_envelope(body);
  if (!event) return;
  if (event->kind == manager::EventKind::other) return;
  CHECK(event->instance_id.starts_with("i-") && event->instance_id.size() <= 32);
  const Instant now{std::chrono::hours{24 * 20'000}};
  manager::EventInbox inbox;
  inbox.take(*event, "r", true, now);
  inbox.take(*event, "r2", true, now);
  const auto heard = inbox.heard(now);
  CHECK(heard.changed.contains(event->instance_id) && heard.warnings.size() <= 1);
  CHECK(inbox.settle().size() == 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  HttpReply reply;
  reply.status = data[0] % 2 == 0 ? 200 : 400;
  reply.body = text;
  switch (data[0] % 8) {
    case 0:
    case 1:
      if (const auto messages = aws::decode_receive(reply))
        for (const auto& message : *messages) read_message(message.body);
      break;
    case 2:
    case 3:
      if (const auto left = aws::decode_delete(reply, 10))
        for (const auto place : *left) CHECK(place < 10);
      break;
    case 4:
      (void)aws::parse_queue_url(text, "us-east-1");
      break;
    default:
      read_message(text);
  }
  return 0;
}
