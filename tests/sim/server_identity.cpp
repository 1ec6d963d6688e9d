// See the header.
#include "tests/sim/server_identity.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

namespace warmroot::sim {

std::optional<DoorReply> identity_door(
    Identity& identity, const SignedRequest& request, const std::string& path,
    const std::function<std::string(const std::string&)>& parameter, Instant now) {
  if (path == "/" && request.method == "POST") {
    const bool by_token =
        request.body.find("Action=AssumeRoleWithWebIdentity") != std::string::npos;
    if (!by_token && service_of(request) != "sts") return std::nullopt;
    return identity.sts(request, now);
  }
  if (path == "/federation/credentials")
    return identity.sso_credentials(header_of(request, "x-amz-sso_bearer_token"),
                                    parameter("account_id"), parameter("role_name"), now);
  if (path == "/token" && request.method == "POST") return identity.sso_token(request.body);
  if (path == "/_container/credentials")
    return identity.container(header_of(request, "authorization"), now);
  if (path.starts_with("/latest/"))
    return identity.metadata(request.method, path, header_of(request, "x-aws-ec2-metadata-token"),
                             now);
  return std::nullopt;
}

std::optional<DoorReply> identity_control(
    Identity& identity, const std::string& method, const std::string& path,
    const std::function<std::string(const std::string&)>& parameter, Instant now) {
  if (path != "/_control/identity") return std::nullopt;
  if (method == "GET")
    return DoorReply{
        200, "application/json",
        nlohmann::json{{"secrets", identity.secrets()}, {"issued", identity.issued()}}.dump()};
  if (const std::string life = parameter("life_ms"); !life.empty())
    identity.life = Milliseconds(std::atoll(life.c_str()));
  if (const std::string down = parameter("down"); !down.empty()) {
    identity.down.clear();  // "none" is no door
    std::istringstream names(down);
    for (std::string name; std::getline(names, name, ',');) identity.down.insert(name);
  }
  if (const std::string repeats = parameter("repeats"); !repeats.empty())
    identity.repeats_requests = repeats == "1";
  if (parameter("revoke") == "1") identity.revoke(now);
  return DoorReply{200, "application/json", "{}\n"};
}

}  // namespace warmroot::sim
