// See the header.
#include "tests/sim/account_services.hpp"

#include <nlohmann/json.hpp>

#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

namespace {

using nlohmann::json;

constexpr std::string_view kQuotas = "ServiceQuotasV20190624.";
constexpr std::string_view kKms = "TrentService.";

struct KnownQuota {
  std::string_view service, code, name;
  std::string_view vcpu_class;  ///< of the region's knobs for vCPUs; empty: `value` counts
  double value;
};
/// vCPUs without a knob are more than anybody launches, as launches find them.
constexpr double kPlenty = 100'000;
constexpr KnownQuota kKnown[] = {
    {"ec2", "L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
     "standard", kPlenty},
    {"ec2", "L-3819A6DF", "All G and VT Spot Instance Requests", "g", kPlenty},
    {"ec2", "L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", "p", kPlenty},
    {"ec2", "L-C4BD4855", "All P5 Spot Instance Requests", "p5", kPlenty},
    {"ec2", "L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
     "standard", kPlenty},
    {"ec2", "L-DB2E81BA", "Running On-Demand G and VT instances", "g", kPlenty},
    {"ec2", "L-417A185B", "Running On-Demand P instances", "p", kPlenty},
    {"ebs", "L-7A658B76", "Storage for General Purpose SSD (gp3) volumes, in TiB", "", 50},
    {"ebs", "L-D18FCD1D", "Storage for General Purpose SSD (gp2) volumes, in TiB", "", 50},
};

std::string text_of(const json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string AccountServices::service_of(const std::string& target) {
  if (target.starts_with(kQuotas)) return "servicequotas";
  return target.starts_with(kKms) ? "kms" : "";
}

AccountReply AccountServices::error(const std::string& code, const std::string& message,
                                    int status) {
  return {status, json{{"__type", code}, {"message", message}}.dump(), code};
}

AccountReply AccountServices::answer(const std::string& target, const std::string& body) const {
  const std::string service = service_of(target);
  const std::string action = target.substr(target.find('.') + 1);
  const json request = json::parse(body, nullptr, false);
  if (!request.is_object())
    return error("SerializationException", "The request is no JSON object.");
  const std::string right = service + ":" + action;
  if (const auto denied = region_.knobs.denied.find(right); denied != region_.knobs.denied.end())
    return error("AccessDeniedException", "User: arn:aws:iam::" + region_.catalog().account_id +
                                              ":user/operator is not authorized to perform: " +
                                              right + " " + why_denied(denied->second, right));
  if (action == "GetServiceQuota")
    return quota(text_of(request, "ServiceCode"), text_of(request, "QuotaCode"));
  if (action == "DescribeKey") return key(text_of(request, "KeyId"));
  return error("UnknownOperationException", action + " is not modelled by the simulated region.");
}

AccountReply AccountServices::quota(const std::string& service, const std::string& code) const {
  for (const auto& known : kKnown) {
    if (known.service != service || known.code != code) continue;
    const auto& vcpus = known.name.starts_with("Running On-Demand")
                            ? region_.knobs.on_demand_vcpu_quota
                            : region_.knobs.spot_vcpu_quota;
    const auto set = vcpus.find(std::string(known.vcpu_class));
    const double value = set == vcpus.end() ? known.value : set->second;
    return {200,
            json{{"Quota",
                  {{"ServiceCode", service},
                   {"QuotaArn", "arn:aws:servicequotas:" + region_.catalog().region + ":" +
                                    region_.catalog().account_id + ":" + service + "/" + code},
                   {"QuotaCode", code},
                   {"QuotaName", known.name},
                   {"Value", value},
                   {"Unit", "None"},
                   {"Adjustable", true},
                   {"GlobalQuota", false},
                   {"QuotaAppliedAtLevel", "ACCOUNT"}}}}
                .dump(),
            ""};
  }
  return error("NoSuchResourceException",
               "The request failed because the specified service does not exist.");
}

AccountReply AccountServices::key(const std::string& name) const {
  const auto found = region_.knobs.kms_keys.find(name);
  if (found == region_.knobs.kms_keys.end())
    return error("NotFoundException",
                 (name.starts_with("alias/") ? "Alias " : "Key ") + name + " is not found.");
  const bool revoked =
      region_.knobs.revoked_keys.contains("*") || region_.knobs.revoked_keys.contains(name);
  const std::string id = "1234abcd-12ab-34cd-56ef-1234567890ab";
  const KmsKeyRecord& key = found->second;
  return {200,
          json{{"KeyMetadata",
                {{"AWSAccountId", region_.catalog().account_id},
                 {"Arn", "arn:aws:kms:" + region_.catalog().region + ":" +
                             region_.catalog().account_id + ":key/" + id},
                 {"KeyId", id},
                 {"CreationDate", 1.7e9},
                 {"Enabled", key.state == "Enabled" && !revoked},
                 {"KeyState", revoked ? "Disabled" : key.state},
                 {"KeyUsage", key.usage},
                 {"KeySpec", key.spec},
                 {"KeyManager", "CUSTOMER"},
                 {"Origin", "AWS_KMS"},
                 {"MultiRegion", false}}}}
              .dump(),
          ""};
}

}  // namespace warmroot::sim
