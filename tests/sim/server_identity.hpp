// Which requests to the region's server are for its identity doors, and their control. Used by
// server.cpp alone.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tests/sim/identity.hpp"

namespace warmroot::sim {

/// Answers what is STS's, SSO's, a container's or the host's metadata service's; nullopt: it is for
/// somebody else. `parameter` reads the query string.
///   POST /                             STS, signed for "sts" or with a web identity's action
///   GET  /federation/credentials       SSO portal         POST /token      SSO OIDC
///   GET  /_container/credentials       AWS_CONTAINER_CREDENTIALS_FULL_URI
///   PUT  /latest/api/token, GET /latest/meta-data/...     AWS_EC2_METADATA_SERVICE_ENDPOINT
std::optional<DoorReply> identity_door(
    Identity& identity, const SignedRequest& request, const std::string& path,
    const std::function<std::string(const std::string&)>& parameter, Instant now);

/// /_control/identity: POST ?life_ms=&down=sts,imds&repeats=1&revoke=1 sets what it names; GET
/// lists what must not be seen anywhere and how many sets were given out.
std::optional<DoorReply> identity_control(
    Identity& identity, const std::string& method, const std::string& path,
    const std::function<std::string(const std::string&)>& parameter, Instant now);

}  // namespace warmroot::sim
