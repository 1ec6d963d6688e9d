// Who may call the simulated region: its long-term key and the temporary credentials that it gives
// through STS, a container's endpoint, the host's metadata service and SSO. Credentials end when
// they say so, so that a client's renewal is really needed. Without sockets; server_identity.cpp
// puts it behind HTTP. Source: ec2.md 7.1.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/server_sigv4.hpp"

namespace warmroot::sim {

/// Whose request it is.
struct Caller {
  std::string account;
  std::string arn;
};

struct IssuedKeys {
  std::string access_key;
  std::string secret_key;
  std::string session_token;
  Instant expires{};
  Caller caller;
};

/// What a door answers.
struct DoorReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

/// What a container has to show, and what an identity provider's tokens begin with.
/// "jwt.expired..." has expired; anything without the prefix is no token.
inline constexpr char kContainerToken[] = "containerAuthorizationToken0123";
inline constexpr char kWebIdentityPrefix[] = "jwt.";
/// The first tokens of SSO; a renewal gives others.
inline constexpr char kSsoBearer[] = "ssoBearerToken0";
inline constexpr char kSsoRefresh[] = "ssoRefreshToken0";

/// Not thread-safe.
class Identity {
 public:
  Identity(SigningKeys keys, std::string account_id);

  /// Checks the signature with the long-term key or one that was given out and has not ended.
  /// Errors: EC2's or, for the service "sts", STS's.
  Answer<Caller> verify(const SignedRequest& request, const std::string& service, Instant now);

  /// One form of STS's Query protocol, as XML.
  DoorReply sts(const SignedRequest& request, Instant now);
  /// GET of a container's credentials.
  DoorReply container(const std::string& authorization, Instant now);
  /// The metadata service of the manager's own host.
  DoorReply metadata(const std::string& method, const std::string& path, const std::string& token,
                     Instant now);
  /// GetRoleCredentials of the SSO portal, and CreateToken of its OIDC.
  DoorReply sso_credentials(const std::string& bearer, const std::string& account,
                            const std::string& role, Instant now);
  DoorReply sso_token(const std::string& body);

  /// How long everything that is given out holds.
  Milliseconds life{3'600'000};
  /// Doors that answer 503: "sts", "container", "imds", "sso".
  std::set<std::string> down;
  /// A refusal of a signature repeats the request with its token, as some services' do.
  bool repeats_requests = false;

  /// Everything given out so far ends now, whatever its holders were told.
  void revoke(Instant now);

  /// All that must not be seen, of what was given out so far.
  std::vector<std::string> secrets() const;
  int issued() const { return count_; }

 private:
  const IssuedKeys& issue(Caller caller, Instant now, std::optional<Milliseconds> at_most = {});
  DoorReply assume_role(const std::map<std::string, std::string>& form,
                        const std::optional<Caller>& caller, Instant now);
  DoorReply sts_error(const ApiError& error) const;

  SigningKeys keys_;
  std::string account_id_;
  std::map<std::string, IssuedKeys> issued_;
  std::optional<IssuedKeys> host_;  ///< the metadata service shows one set until its half time
  int count_ = 0;
  int sso_generation_ = 0;
};

/// Which service a request is signed for; empty where it is not signed.
std::string service_of(const SignedRequest& request);

}  // namespace warmroot::sim
