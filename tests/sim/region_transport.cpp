// See the header.
#include "tests/sim/region_transport.hpp"

namespace warmroot::sim {

std::vector<Result<HttpReply>> RegionTransport::post(std::span<const std::string> bodies) {
  std::vector<Result<HttpReply>> replies;
  replies.reserve(bodies.size());
  for (const auto& body : bodies) {
    const QueryReply reply = front_.answer(body);
    if (reply.never_connected) {
      replies.push_back(fail(ErrorKind::retry_later, "connecting to the region: refused"));
    } else if (reply.lost) {
      replies.push_back(fail(ErrorKind::unknown_outcome, "waiting for the region: timeout"));
    } else {
      HttpReply http;
      http.status = reply.status;
      http.body = reply.body;
      http.headers = {{"content-type", reply.content_type}, {"x-amzn-requestid", reply.request_id}};
      replies.push_back(std::move(http));
    }
  }
  return replies;
}

}  // namespace warmroot::sim
