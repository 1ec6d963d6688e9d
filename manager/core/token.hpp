// Client tokens: what makes a repeated create harmless. Pure text from the facts that identify the
// wish, so that a manager that lost its ledger asks with the same token again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/text_map.hpp"

namespace warmroot::core {

/// 128 bits over the fields, each preceded by its length; 32 hex digits. Not a secret,
/// only a name.
std::string hash_text(const std::vector<std::string>& fields);

/// The same hash as a number in [0, 1): the jitter of a retry, the same at every replay.
double hash_fraction(const std::vector<std::string>& fields);

/// What identifies one create. `subject` is the node, or for a launch of several "node:generation"
/// of each.
struct TokenFacts {
  std::string_view deployment;
  std::string_view action;
  std::string_view pool;
  std::string subject;
  int generation = 0;  ///< grows with each definite outcome that used the token up
  std::string_view zone;
};

/// "wr-<deployment>-<facts>", 44 ASCII characters. Source: ClientToken is at most 64 (EC2 API
/// reference).
std::string client_token(const TokenFacts& facts);

/// True when `token` was made by client_token for this deployment, by whichever ledger.
bool is_own_token(std::string_view deployment, std::string_view token);

/// On instances of a fleet: the fleet's token. EC2 gives them client tokens of its own.
inline constexpr const char* kTagLaunch = "warmroot:launch";
/// Given by EC2 to what a fleet launched; nobody can copy or remove it.
inline constexpr const char* kTagFleet = "aws:ec2:fleet-id";

/// Given by EC2 to what an Auto Scaling group launched or took in.
inline constexpr const char* kTagGroup = "aws:autoscaling:groupName";

/// True for an instance that a call with such a token launched, by itself or as a fleet. Tags that
/// people copied to an instance of theirs do not make it ours, and what a group has is the group's
/// to end: it would launch another in its place.
bool is_own_launch(std::string_view deployment, std::string_view token, const TextMap& tags);

}  // namespace warmroot::core
