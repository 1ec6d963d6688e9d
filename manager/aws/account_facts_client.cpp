// See the header.
#include "manager/aws/account_facts_client.hpp"

#include <utility>

#include "manager/aws/ec2_client.hpp"

namespace warmroot::aws {
namespace {

constexpr const char* kJsonType = "application/x-amz-json-1.1";
/// Somebody waits for the doctor, and can do without.
constexpr Milliseconds kFactsTimeout{5'000};

}  // namespace

Result<HttpReply> AccountFactsClient::post(Door& door, const JsonCall& call) {
  if (door.closed) return fail(*door.closed);
  if (!door.http) {
    TRY_ASSIGN(auto address,
               resolve_service(door.service, connection_.settings.choices,
                               connection_.settings.region, *connection_.surroundings));
    door.http = std::make_unique<SignedHttp>(
        std::move(address), std::string(names_of(door.service).signing), connection_, nullptr);
  }
  auto reply = door.http->send(
      {"POST", "/", {}, {{"content-type", kJsonType}, {"x-amz-target", call.target}}, call.body},
      kFactsTimeout, json_code_of);
  if (!reply) door.closed = reply.error();
  return reply;
}

Result<double> AccountFactsClient::service_quota(const std::string& service,
                                                 const std::string& code) {
  TRY_ASSIGN(const HttpReply reply, post(quotas_, encode_get_service_quota(service, code)));
  return decode_service_quota(reply);
}

Result<KmsKey> AccountFactsClient::key(const std::string& key) {
  TRY_ASSIGN(const HttpReply reply, post(keys_, encode_describe_key(key)));
  return decode_key(reply);
}

}  // namespace warmroot::aws
