#include "manager/ssh_config.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace warmroot::manager {
namespace {

/// A host's name as DNS knows it, a user's as useradd does.
bool is_plain(const std::string& name) {
  const auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= 255 && (letter_or_digit(name[0]) || name[0] == '_') &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return letter_or_digit(c) || c == '-' || c == '.' || c == '_';
         });
}

bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  return ::inet_pton(AF_INET, text.c_str(), parsed.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), parsed.data()) == 1;
}

std::string host_block(const SshTarget& target, const std::string& name, int port) {
  std::string text =
      fmt::format("Host {}\n    HostName {}\n    HostKeyAlias {}\n    CheckHostIP no\n", name,
                  target.address, target.node);
  if (!target.user.empty()) text += fmt::format("    User {}\n", target.user);
  if (port != 0) text += fmt::format("    Port {}\n", port);
  return text;
}

}  // namespace

Ok check_ssh_target(const SshTarget& target) {
  if (!is_plain(target.node))
    return fail(ErrorKind::misconfigured,
                fmt::format("\"{}\" is no name that ssh could be given", target.node));
  if (!target.user.empty() && !is_plain(target.user))
    return fail(ErrorKind::misconfigured, fmt::format("\"{}\" is no user's name", target.user));
  if (!is_address(target.address))
    return fail(ErrorKind::misconfigured, fmt::format("\"{}\", which EC2 gives for {}, is no "
                                                      "address",
                                                      target.address, target.node));
  return {};
}

std::vector<std::string> ssh_arguments(const SshTarget& target,
                                       const std::vector<std::string>& command) {
  std::vector<std::string> words = {"ssh", "-o", "HostKeyAlias=" + target.node, "-o",
                                    "CheckHostIP=no"};
  if (!target.user.empty()) words.insert(words.end(), {"-l", target.user});
  words.push_back(target.address);
  // ssh goes on looking for options behind the address.
  if (!command.empty()) words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string ssh_host_blocks(const SshTarget& target) {
  std::string text = host_block(target, target.node, 0);
  if (target.rescue_port != 0)
    text += host_block(target, target.node + "-rescue", target.rescue_port);
  return text;
}

}  // namespace warmroot::manager
