// What lies beside EC2: the quotas of Service Quotas, and the KMS key that volumes are encrypted
// with. Neither has to be readable: what is not says what to look at by hand.
#include <algorithm>
#include <cmath>
#include <set>

#include "manager/core/pool_source.hpp"
#include "manager/doctor.hpp"

namespace warmroot::manager {
namespace {

enum class Market { spot, on_demand };

std::string word_of(Market market) {
  return market == Market::spot ? "spot" : "on-demand";
}

/// A quota of vCPUs: what Service Quotas calls it, and the families that count against it.
struct VcpuQuota {
  std::string_view code;  ///< empty: not known
  std::string_view name;
};

/// Source: EC2 user guide, "Spot Instance quotas" and "On-Demand Instance quotas", and Service
/// Quotas' list of EC2's. Of spot P6 and later public lists disagree.
VcpuQuota quota_of(const std::string& type, Market market) {
  const auto digits = type.find_first_of("0123456789");
  const std::string family = type.substr(0, digits);
  const char generation = digits == std::string::npos ? '0' : type[digits];
  const auto of = [market](std::string_view spot, std::string_view on_demand,
                           std::string_view name) {
    return VcpuQuota{market == Market::spot ? spot : on_demand, name};
  };
  if (family == "g" || family == "gr" || family == "vt")
    return of("L-3819A6DF", "L-DB2E81BA", "G and VT");
  if (family == "p" && market == Market::on_demand) return of("", "L-417A185B", "P");
  if (family == "p" && generation <= '4') return of("L-7212CCBC", "", "P4, P3 and P2");
  if (family == "p") return of(generation == '5' ? "L-C4BD4855" : "", "", "P5 and later");
  if (family == "inf") return of("L-B5D1601B", "L-1945791B", "Inf");
  if (family == "trn") return of("L-6B0D517C", "L-2C3B7624", "Trn");
  if (family == "dl") return of("L-85EED4F7", "L-6E869C2A", "DL");
  if (family == "f") return of("L-88CF9481", "L-74FC7D96", "F");
  if (family == "x") return of("L-E3A00192", "L-7295265B", "X");
  return of("L-34B43A08", "L-1216C47A", "standard");
}

/// Of storage in TiB, by volume type; empty for what has none. Source: Service Quotas' list of
/// EBS's.
std::string_view storage_quota_of(const std::string& volume_type) {
  constexpr std::pair<std::string_view, std::string_view> kCodes[] = {
      {"gp3", "L-7A658B76"},     {"gp2", "L-D18FCD1D"}, {"io1", "L-FD252861"},
      {"io2", "L-09BD8365"},     {"sc1", "L-17AF77E8"}, {"st1", "L-82ACEF56"},
      {"standard", "L-9CF3C2EB"}};
  for (const auto& [type, code] : kCodes)
    if (type == volume_type) return code;
  return {};
}

std::string label_of(const VcpuQuota& quota) {
  if (quota.code.empty()) return "that of " + std::string(quota.name);
  return std::string(quota.code) + " (" + std::string(quota.name) + ")";
}

std::string number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e9;
  std::string text = std::to_string(value);
  return whole ? std::to_string(static_cast<long long>(value)) : text.substr(0, text.find('.') + 2);
}

constexpr double kGibPerTib = 1024;

constexpr const char* kMoreVcpus = "ask AWS for more, or lower `running`";

std::string storage_text(double gib) {
  return gib < kGibPerTib ? number(std::ceil(gib)) + " GiB" : number(gib / kGibPerTib) + " TiB";
}

/// Why a quota could not be read, and what helps.
std::string why_unread(const Error& error) {
  if (error.kind == ErrorKind::unauthorised && says_denied(error.context))
    return "servicequotas:GetServiceQuota is denied, " + who_denies(error.context);
  if (error.kind == ErrorKind::gone) return "the account has no value of its own";
  return error.message();
}

/// The vCPUs of the pool's types that count against one quota.
struct Share {
  int smallest = 0;
  int largest = 0;
};
using Shares = std::map<std::string_view, std::pair<VcpuQuota, Share>>;  ///< by code

/// Errors: refused where it is not known what a type has or what it counts against.
Result<Shares> shares_of(const core::PoolSpec& pool, const TypeFacts& facts, Market market) {
  if (!facts.types) return fail(ErrorKind::refused, "the types' vCPUs are not known");
  Shares shares;
  for (const std::string& name : pool.launch->instance_types) {
    const auto found = facts.types->find(name);
    if (found == facts.types->end()) continue;  // told by the types' own check
    const int vcpus = found->second.vcpus;
    if (vcpus <= 0) return fail(ErrorKind::refused, "the vCPUs of " + name + " are not known");
    const VcpuQuota quota = quota_of(name, market);
    if (quota.code.empty())
      return fail(ErrorKind::refused, "which of them " + name + " counts against is not known");
    auto [place, is_new] = shares.try_emplace(quota.code, quota, Share{vcpus, vcpus});
    auto& share = place->second.second;
    share = {std::min(share.smallest, vcpus), std::max(share.largest, vcpus)};
  }
  return shares;
}

/// Quotas by service and code, each asked about once.
class QuotaReader {
 public:
  explicit QuotaReader(const DoctorFacts& facts) : facts_(facts) {}

  const Result<double>& read(const std::string& service, std::string_view code) {
    const auto key = std::pair(service, std::string(code));
    auto found = read_.find(key);
    if (found == read_.end())
      found = read_
                  .emplace(key, facts_.quota ? facts_.quota(key.first, key.second)
                                             : Result<double>(fail(ErrorKind::refused,
                                                                   "Service Quotas was not asked")))
                  .first;
    return found->second;
  }

 private:
  const DoctorFacts& facts_;
  std::map<std::pair<std::string, std::string>, Result<double>> read_;
};

Finding unread_quota(const core::PoolSpec& pool, Market market, const Shares* shares,
                     const Error& error) {
  std::set<std::string> quotas;
  for (const auto& type : pool.launch->instance_types)
    quotas.insert(label_of(quota_of(type, market)));
  std::string labels;
  for (const auto& label : quotas) labels += (labels.empty() ? "" : ", ") + label;
  int largest = 0;
  if (shares)
    for (const auto& [code, each] : *shares) largest = std::max(largest, each.second.largest);
  const std::string needed = largest == 0
                                 ? std::to_string(pool.running) + " instances"
                                 : std::to_string(pool.running * largest) + " vCPUs at most";
  return Finding::unknown("quota", pool.name,
                          "the pool needs " + needed + " of " + word_of(market) +
                              ", and the quota could not be read (" + why_unread(error) + ")",
                          "look at " + labels + " in Service Quotas");
}

/// What the quotas let run, of the pool alone: what else the account runs counts as well.
void check_vcpus(const core::PoolSpec& pool, Market market, const TypeFacts& types,
                 QuotaReader& quotas, std::vector<Finding>& findings) {
  if (pool.running == 0) return;
  const auto shares = shares_of(pool, types, market);
  if (!shares) {
    findings.push_back(unread_quota(pool, market, nullptr, shares.error()));
    return;
  }
  if (shares->empty()) return;  // no type exists
  std::string values;
  long long nodes = 0;
  bool roomy = true;
  for (const auto& [code, each] : *shares) {
    const auto& [quota, share] = each;
    const auto& value = quotas.read("ec2", code);
    if (!value) {
      findings.push_back(unread_quota(pool, market, &*shares, value.error()));
      return;
    }
    values += (values.empty() ? "" : ", ") + label_of(quota) + " is " + number(*value) + " vCPUs";
    nodes += static_cast<long long>(*value) / share.smallest;
    roomy = roomy && *value >= static_cast<double>(pool.running) * share.largest;
  }
  const std::string wanted = std::to_string(pool.running) + " nodes";
  const std::string found = word_of(market) + " quota " + values + ", enough for ";
  if (nodes < pool.running)
    findings.push_back(Finding::wrong("quota", pool.name,
                                      found + std::to_string(nodes) + " of " + wanted, kMoreVcpus));
  else
    findings.push_back(Finding::ok("quota", pool.name,
                                   found + wanted + (roomy ? "" : " of the smaller types only") +
                                       "; what else the account runs counts as well"));
}

/// Pools that each fit may not fit together.
void check_spot_quotas_together(const DoctorFacts& facts, const TypeFacts& types,
                                QuotaReader& quotas, std::vector<Finding>& findings) {
  struct Sum {
    VcpuQuota quota;
    long long vcpus = 0;
    int pools = 0;
  };
  std::map<std::string_view, Sum> sums;
  for (const auto& pool : facts.desired.pools) {
    if (!pool.launch || pool.running == 0) continue;
    const auto shares = shares_of(pool, types, Market::spot);
    if (!shares || shares->size() != 1) continue;  // another quota may carry it
    const auto& [code, each] = *shares->begin();
    auto& sum = sums.try_emplace(code, Sum{each.first}).first->second;
    sum.vcpus += static_cast<long long>(pool.running) * each.second.smallest;
    ++sum.pools;
  }
  for (const auto& [code, sum] : sums) {
    if (sum.pools < 2) continue;
    const auto& value = quotas.read("ec2", code);
    if (value && *value < static_cast<double>(sum.vcpus))
      findings.push_back(Finding::wrong("quota", "",
                                        std::to_string(sum.pools) + " pools together need " +
                                            std::to_string(sum.vcpus) + " vCPUs of spot quota " +
                                            label_of(sum.quota) + ", which is " + number(*value),
                                        kMoreVcpus));
  }
}

double size_of(const core::PoolSpec& pool, const core::Observed& observed) {
  if (pool.volumes.size_gib > 0) return pool.volumes.size_gib;
  const auto found = observed.snapshots.find(core::find_source(pool, observed).snapshot_id);
  return found != observed.snapshots.end() && found->second.found
             ? found->second.found->volume_size_gib
             : 0;
}

/// Storage of all pools by volume type; the volumes of others count against it as well.
void check_storage(const DoctorFacts& facts, const core::Observed& observed, QuotaReader& quotas,
                   std::vector<Finding>& findings) {
  std::map<std::string, double> gib;
  for (const auto& pool : facts.desired.pools) {
    const double size = size_of(pool, observed);
    const auto zones = static_cast<double>(pool.zones.size());
    gib[pool.volumes.type] +=
        size * (pool.nodes + zones * (pool.stock.spares + (pool.stock.golden ? 1 : 0)));
  }
  for (const auto& [type, needed] : gib) {
    const auto code = storage_quota_of(type);
    if (code.empty() || needed <= 0) continue;
    const auto& value = quotas.read("ebs", code);
    const std::string need = "the pools' volumes are " + storage_text(needed) + " of " + type +
                             ", quota " + std::string(code);
    if (!value)
      findings.push_back(Finding::unknown(
          "quota", "", need + " could not be read (" + why_unread(value.error()) + ")",
          "look at it in Service Quotas"));
    else if (*value * kGibPerTib < needed)
      findings.push_back(
          Finding::wrong("quota", "", need + " is " + number(*value) + " TiB", "ask AWS for more"));
    else
      findings.push_back(Finding::ok(
          "quota", "",
          need + " is " + number(*value) + " TiB; the account's other volumes count as well"));
  }
}

}  // namespace

void check_quotas(const DoctorFacts& facts, const core::Observed& observed, const TypeFacts& types,
                  std::vector<Finding>& findings) {
  QuotaReader quotas(facts);
  for (const auto& pool : facts.desired.pools) {
    if (!pool.launch) continue;
    check_vcpus(pool, Market::spot, types, quotas, findings);
    if (pool.launch->on_demand_fallback)
      check_vcpus(pool, Market::on_demand, types, quotas, findings);
  }
  check_spot_quotas_together(facts, types, quotas, findings);
  check_storage(facts, observed, quotas, findings);
}

void check_key(const core::PoolSpec& pool, const DoctorFacts& facts, const core::Observed& observed,
               std::vector<Finding>& findings) {
  const std::string source = core::find_source(pool, observed).snapshot_id;
  const auto snapshot = observed.snapshots.find(source);
  const bool is_encrypted = snapshot != observed.snapshots.end() && snapshot->second.found &&
                            snapshot->second.found->encrypted;
  if (!pool.volumes.encrypted && !is_encrypted) return;
  const std::string& name = pool.volumes.kms_key;
  const std::string key = name.empty() ? "the account's default key for EBS" : "key " + name;
  const std::string must_allow =
      std::string(
          "allow CreateGrant (for attaching), Decrypt, DescribeKey, "
          "GenerateDataKeyWithoutPlaintext and ReEncrypt, which nothing tries; without "
          "them volumes vanish after they were made") +
      (pool.launch ? "; for disks that come with spot launches it must be granted to the role "
                     "AWSServiceRoleForEC2Spot as well (aws kms create-grant)"
                   : "");
  const auto unknown = [&](const std::string& text, const std::string& remedy) {
    findings.push_back(Finding::unknown("KMS key", pool.name, text, remedy));
  };
  const auto wrong = [&](const std::string& text, const std::string& remedy) {
    findings.push_back(Finding::wrong("KMS key", pool.name, text, remedy));
  };
  if (!pool.volumes.encrypted)
    return unknown("snapshot " + source + " is encrypted, and its key is not asked about",
                   "see that the key may be used by this account and does " + must_allow);
  // To describe an alias of AWS's own may make its key. Source: KMS API reference, DescribeKey.
  if (name.empty() || name.find("alias/aws/") != std::string::npos || !facts.key)
    return unknown(key + " is not asked about", "see that it does " + must_allow);
  const auto described = facts.key(name);
  if (!described) {
    const Error& error = described.error();
    if (error.kind == ErrorKind::misconfigured)
      return wrong(key + ": " + error.message(), "correct `kms_key`");
    const bool denied = error.kind == ErrorKind::unauthorised && says_denied(error.context);
    return unknown(key + " could not be looked at: " +
                       (denied ? "kms:DescribeKey is denied" : error.message()),
                   remedy_of(error) + ". The key must " + must_allow);
  }
  if (described->state != "Enabled")
    return wrong(key + " is in state " + described->state,
                 "enable it, or name another in `kms_key`");
  if (described->usage != "ENCRYPT_DECRYPT" ||
      (!described->spec.empty() && described->spec != "SYMMETRIC_DEFAULT"))
    return wrong(key + " is a key for " + described->usage + " of type " + described->spec +
                     ", EBS takes symmetric encryption keys only",
                 "name another in `kms_key`");
  findings.push_back(
      Finding::ok("KMS key", pool.name, key + " is enabled and encrypts. It must " + must_allow));
}

}  // namespace warmroot::manager
