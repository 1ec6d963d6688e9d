// See the header.
#include "manager/aws/account_facts.hpp"

#include <nlohmann/json.hpp>

#include "manager/aws/json_error.hpp"

namespace warmroot::aws {
namespace {

using nlohmann::json;

/// Both answers are below 4 KiB.
constexpr std::size_t kMaxFactsReply = 1 << 20;

ErrorKind facts_kind_of(int status, const std::string& code) {
  if (is_denial(code)) return ErrorKind::unauthorised;
  if (code == "NoSuchResourceException") return ErrorKind::gone;
  if (code == "NotFoundException" || code == "InvalidArnException" ||
      code == "IllegalArgumentException" || code == "ValidationException")
    return ErrorKind::misconfigured;
  if (status >= 500 || status == 429 || code == "TooManyRequestsException" ||
      code == "DependencyTimeoutException" || code.find("Throttl") != std::string::npos)
    return ErrorKind::retry_later;
  return ErrorKind::refused;
}

/// The member that a successful answer consists of.
Result<json> member_of(const HttpReply& reply, const char* action, const char* member) {
  json body = json::parse(reply.body.substr(0, kMaxFactsReply), nullptr, false);
  if (reply.status != 200) {
    const std::string code = json_code_of(reply);
    std::string why = text_of(body, "message");
    if (why.empty()) why = text_of(body, "Message");
    if (why.empty()) why = "HTTP " + std::to_string(reply.status);
    Error error{facts_kind_of(reply.status, code), std::string(action) + ": " + why, code, {}};
    if (const auto id = reply.headers.find("x-amzn-requestid"); id != reply.headers.end())
      error.request_id = id->second;
    return fail(std::move(error));
  }
  const auto found = body.is_object() ? body.find(member) : body.end();
  if (!body.is_object() || found == body.end() || !found->is_object())
    return fail(ErrorKind::broken, std::string(action) + ": the answer has no " + member);
  return std::move(*found);  // a copy of deep nesting would need as deep a stack
}

}  // namespace

JsonCall encode_get_service_quota(const std::string& service, const std::string& code) {
  return {"ServiceQuotasV20190624.GetServiceQuota",
          json{{"ServiceCode", service}, {"QuotaCode", code}}.dump()};
}

JsonCall encode_describe_key(const std::string& key) {
  return {"TrentService.DescribeKey", json{{"KeyId", key}}.dump()};
}

std::string json_code_of(const HttpReply& reply) {
  if (reply.status == 200) return {};
  if (const auto header = reply.headers.find("x-amzn-errortype"); header != reply.headers.end())
    return bare_error_type(header->second);
  const json body = json::parse(reply.body.substr(0, kMaxFactsReply), nullptr, false);
  if (body.is_object())
    if (auto type = text_of(body, "__type"); !type.empty()) return bare_error_type(std::move(type));
  return "HTTP" + std::to_string(reply.status);
}

Result<double> decode_service_quota(const HttpReply& reply) {
  TRY_ASSIGN(const json quota, member_of(reply, "GetServiceQuota", "Quota"));
  const auto value = quota.find("Value");
  if (value == quota.end() || !value->is_number())
    return fail(ErrorKind::broken, "GetServiceQuota: the quota has no value");
  return value->get<double>();
}

Result<KmsKey> decode_key(const HttpReply& reply) {
  TRY_ASSIGN(const json data, member_of(reply, "DescribeKey", "KeyMetadata"));
  KmsKey key{text_of(data, "Arn"), text_of(data, "KeyState"), text_of(data, "KeyUsage"),
             text_of(data, "KeySpec")};
  if (key.state.empty() || key.usage.empty())
    return fail(ErrorKind::broken, "DescribeKey: the key has no state or no usage");
  return key;
}

}  // namespace warmroot::aws
