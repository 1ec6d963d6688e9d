// See the header.
#include "tests/sim/imds.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/sim/query_form.hpp"

namespace warmroot::sim {

namespace {

constexpr char kTtlHeader[] = "x-aws-ec2-metadata-token-ttl-seconds";
constexpr char kTokenHeader[] = "x-aws-ec2-metadata-token";
constexpr char kDocument[] = "dynamic/instance-identity/document";
constexpr char kDocumentSignature[] = "dynamic/instance-identity/rsa2048";

/// IMDS writes times without milliseconds.
std::string seconds_text(Instant instant) {
  return to_iso8601(instant).substr(0, 19) + "Z";
}

std::string private_name(const InstanceRecord& guest) {
  std::string name = "ip-" + guest.private_ip;
  std::replace(name.begin(), name.end(), '.', '-');
  return name + ".ec2.internal";
}

std::string identity_document(const Region& region, const InstanceRecord& guest) {
  const nlohmann::json document = {{"accountId", region.catalog().account_id},
                                   {"architecture", guest.architecture},
                                   {"availabilityZone", guest.zone},
                                   {"imageId", guest.image_id},
                                   {"instanceId", guest.id},
                                   {"instanceType", guest.type},
                                   {"pendingTime", seconds_text(guest.launch_time)},
                                   {"privateIp", guest.private_ip},
                                   {"region", region.catalog().region},
                                   {"version", "2017-09-30"}};
  return document.dump(2);
}

void add_network(std::map<std::string, std::string>& leaves, const Region& region,
                 const InstanceRecord& guest) {
  const std::string card = "meta-data/network/interfaces/macs/" + guest.mac + "/";
  leaves[card + "device-number"] = "0";
  leaves[card + "mac"] = guest.mac;
  leaves[card + "local-ipv4s"] = guest.private_ip;
  leaves[card + "local-hostname"] = private_name(guest);
  leaves[card + "owner-id"] = region.catalog().account_id;
  leaves[card + "security-groups"] = "default";
  leaves[card + "subnet-id"] = guest.subnet_id;
  if (const SubnetRecord* subnet = region.subnet(guest.subnet_id))
    leaves[card + "subnet-ipv4-cidr-block"] = subnet->cidr;
  leaves[card + "vpc-id"] = guest.vpc_id;
}

void add_notice(std::map<std::string, std::string>& leaves, const InstanceRecord& guest) {
  if (guest.rebalance_at)
    leaves["meta-data/events/recommendations/rebalance"] =
        nlohmann::json{{"noticeTime", seconds_text(*guest.rebalance_at)}}.dump();
  if (!guest.reclaim_at) return;
  const std::string time = seconds_text(*guest.reclaim_at);
  leaves["meta-data/spot/instance-action"] =
      nlohmann::json{{"action", "terminate"}, {"time", time}}.dump();
  leaves["meta-data/spot/termination-time"] = time;
}

ImdsReply plain_error(int status, const std::string& title) {
  ImdsReply reply;
  reply.status = status;
  reply.content_type = "text/html";
  reply.body = "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<html><head><title>" +
               std::to_string(status) + " - " + title + "</title></head><body><h1>" +
               std::to_string(status) + " - " + title + "</h1></body></html>\n";
  return reply;
}

std::string header(const std::map<std::string, std::string>& headers, const std::string& name) {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

}  // namespace

std::map<std::string, std::string> imds_leaves(const Region& region, const InstanceRecord& guest) {
  const std::string zone_id =
      region.zone(guest.zone) != nullptr ? region.zone(guest.zone)->id : std::string();
  std::map<std::string, std::string> leaves = {
      {"meta-data/ami-id", guest.image_id},
      {"meta-data/ami-launch-index", std::to_string(guest.launch_index)},
      {"meta-data/ami-manifest-path", "(unknown)"},
      {"meta-data/hostname", private_name(guest)},
      {"meta-data/local-hostname", private_name(guest)},
      {"meta-data/instance-action", "none"},
      {"meta-data/instance-id", guest.id},
      {"meta-data/instance-life-cycle", guest.spot() ? "spot" : "on-demand"},
      {"meta-data/instance-type", guest.type},
      {"meta-data/local-ipv4", guest.private_ip},
      {"meta-data/mac", guest.mac},
      {"meta-data/placement/availability-zone", guest.zone},
      {"meta-data/placement/availability-zone-id", zone_id},
      {"meta-data/placement/region", region.catalog().region},
      {"meta-data/profile", "default-hvm"},
      {"meta-data/reservation-id", guest.reservation_id},
      {"meta-data/security-groups", "default"},
      {"meta-data/services/domain", "amazonaws.com"},
      {"meta-data/services/partition", "aws"},
      {"meta-data/system", "nitro"},
      {"meta-data/events/maintenance/scheduled", "[]"},
      {kDocument, identity_document(region, guest)},
      {kDocumentSignature, ""},
  };
  for (const auto& [name, device] : guest.launch_mapping)
    leaves["meta-data/block-device-mapping/" + name] = device;
  for (const auto& pair : region.catalog().key_pairs)
    if (pair.name == guest.key_name)
      leaves["meta-data/public-keys/0/openssh-key"] = pair.public_key;
  if (guest.metadata_tags)
    for (const auto& [key, value] : guest.tags) leaves["meta-data/tags/instance/" + key] = value;
  if (!guest.user_data.empty()) leaves["user-data"] = guest.user_data;
  add_network(leaves, region, guest);
  add_notice(leaves, guest);
  return leaves;
}

ImdsReply Imds::give_token(const std::map<std::string, std::string>& headers) {
  constexpr long kMostSeconds = 21600;
  // A request that came through a proxy must not get a token (EC2 user guide).
  if (headers.contains("x-forwarded-for")) return plain_error(403, "Forbidden");
  const std::string ttl = header(headers, kTtlHeader);
  if (ttl.empty() || ttl.size() > 5 || ttl.find_first_not_of("0123456789") != std::string::npos)
    return plain_error(400, "Bad Request");
  const long seconds = std::stol(ttl);
  if (seconds < 1 || seconds > kMostSeconds) return plain_error(400, "Bad Request");
  std::erase_if(tokens_, [&](const auto& token) { return token.second <= region_.now(); });
  ImdsReply reply;
  reply.body = base64_encode(instance_id_ + "/" + std::to_string(++last_token_) + "/" +
                             std::to_string(region_.now().time_since_epoch().count()));
  reply.headers[kTtlHeader] = ttl;
  tokens_[reply.body] = region_.now() + std::chrono::seconds(seconds);
  return reply;
}

ImdsReply Imds::answer(const std::string& method, const std::string& path,
                       const std::map<std::string, std::string>& headers) {
  if (method == "PUT")
    return path == "/latest/api/token" ? give_token(headers) : plain_error(405, "Not Allowed");
  if (method != "GET" && method != "HEAD") return plain_error(405, "Not Allowed");
  // Version 1 is off: every instance of this region requires a token.
  const auto token = tokens_.find(header(headers, kTokenHeader));
  if (token == tokens_.end() || token->second <= region_.now())
    return plain_error(401, "Unauthorized");
  return read(path);
}

ImdsReply Imds::read(std::string path) const {
  ImdsReply reply;
  const InstanceRecord* guest = region_.instance(instance_id_);
  if (guest == nullptr || guest->state == GuestState::terminated)
    return plain_error(404, "Not Found");
  if (path == "/" || path.empty()) {
    reply.body = "2021-03-23\nlatest";
    return reply;
  }
  // Dated versions of the tree are the same here.
  static const std::regex kVersion("^/(latest|[0-9]{4}-[0-9]{2}-[0-9]{2}|1\\.0)(/|$)");
  std::smatch version;
  if (!std::regex_search(path, version, kVersion)) return plain_error(404, "Not Found");
  path = version.suffix();
  const auto leaves = imds_leaves(region_, *guest);
  if (const auto leaf = leaves.find(path); leaf != leaves.end()) {
    reply.body = path == kDocumentSignature ? signer_.sign(leaves.at(kDocument)) : leaf->second;
    if (path == "user-data") reply.content_type = "application/octet-stream";
    return reply;
  }
  if (!path.empty() && path.back() != '/') path += '/';
  std::set<std::string> names;
  for (const auto& [name, value] : leaves) {
    if (!name.starts_with(path)) continue;
    const std::string rest = name.substr(path.size());
    // Tag keys may hold no slash, so that every slash begins a directory.
    const auto slash = rest.find('/');
    names.insert(slash == std::string::npos ? rest : rest.substr(0, slash + 1));
  }
  if (names.empty()) return plain_error(404, "Not Found");
  if (path == "meta-data/public-keys/") names = {"0=" + guest->key_name};
  for (const auto& name : names) reply.body += (reply.body.empty() ? "" : "\n") + name;
  return reply;
}

}  // namespace warmroot::sim
