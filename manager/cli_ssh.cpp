// `warmroot ssh` and `warmroot ssh-config`: where the nodes are now, for the stock ssh.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "manager/aws/paging.hpp"
#include "manager/cli.hpp"
#include "manager/cli_context.hpp"
#include "manager/ssh_config.hpp"

namespace warmroot::manager {
namespace {

/// Ids of one DescribeInstances call.
constexpr std::size_t kIdsOfCall = 100;

/// Public addresses where an instance has one, else private ones, by instance id.
Result<std::map<std::string, std::string>> addresses_of(aws::Ec2& ec2,
                                                        const std::vector<std::string>& ids) {
  std::map<std::string, std::string> addresses;
  for (std::size_t at = 0; at < ids.size(); at += kIdsOfCall) {
    aws::DescribeRequest request;
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(at);
    request.filters = {
        {"instance-id",
         {first, first + static_cast<std::ptrdiff_t>(std::min(kIdsOfCall, ids.size() - at))}}};
    TRY_ASSIGN(const auto found, aws::collect_all(ec2, &aws::Ec2::describe_instances, request));
    for (const aws::Instance& instance : found)
      addresses[instance.instance_id] =
          instance.public_ip.empty() ? instance.private_ip : instance.public_ip;
  }
  return addresses;
}

struct Found {
  core::NodeRow row;
  SshTarget target;  ///< its address is empty while the node has no instance
};

/// The nodes that `wanted` names, with what ssh needs to know of each.
template <typename Wanted>
Result<std::vector<Found>> find_nodes(const Options& options, Wanted wanted) {
  TRY_ASSIGN(Context context, open_context(options));
  TRY_ASSIGN(const TickReport report, look(context));
  std::vector<Found> nodes;
  std::vector<std::string> ids;
  for (const core::NodeRow& row : report.plan.nodes_now) {
    if (!wanted(row)) continue;
    Found found{row, {row.node, "", "", 0}};
    for (const core::PoolSpec& pool : context.config.desired.pools)
      if (pool.name == row.pool) {
        found.target.user = pool.session.user;
        found.target.rescue_port = pool.session.rescue_port;
      }
    if (!row.instance_id.empty()) ids.push_back(row.instance_id);
    nodes.push_back(std::move(found));
  }
  TRY_ASSIGN(auto addresses, addresses_of(*context.connection.ec2, ids));
  for (Found& found : nodes) found.target.address = addresses[found.row.instance_id];
  return nodes;
}

Result<int> ssh(const Options& options) {
  const std::size_t at = options.subject.find('@');
  const std::string name =
      at == std::string::npos ? options.subject : options.subject.substr(at + 1);
  TRY_ASSIGN(auto nodes,
             find_nodes(options, [&](const core::NodeRow& row) { return row.node == name; }));
  if (nodes.empty())
    return fail(ErrorKind::misconfigured,
                fmt::format("there is no node {}; see warmroot node list", name));
  Found& found = nodes.front();
  if (found.target.address.empty()) {
    fmt::print(stderr, "warmroot: {} has no instance now: {}\n", name,
               core::describe(found.row.condition).meaning);
    return kUnmetStatus;
  }
  if (at != std::string::npos) found.target.user = options.subject.substr(0, at);
  TRY(check_ssh_target(found.target));
  auto words = ssh_arguments(found.target, options.words);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return fail_errno("starting ssh");
}

Result<int> ssh_config(const Options& options) {
  TRY_ASSIGN(const auto nodes, find_nodes(options, [&](const core::NodeRow& row) {
               return options.pool.empty() || row.pool == options.pool;
             }));
  if (nodes.empty() && !options.pool.empty())
    return fail(ErrorKind::misconfigured, "the spec has no pool " + options.pool);
  for (const Found& found : nodes) {
    const bool absent = found.target.address.empty();
    if (const Ok good = absent ? Ok{} : check_ssh_target(found.target); !good)
      fmt::print(stderr, "warmroot: left out: {}\n", good.error().message());
    else if (!absent)
      fmt::print("{}", ssh_host_blocks(found.target));
  }
  std::fflush(stdout);
  return kSuccessStatus;
}

}  // namespace

int run_ssh(const Options& options) {
  const Result<int> status = options.command == Command::ssh ? ssh(options) : ssh_config(options);
  return status ? *status : tell_error(status.error());
}

}  // namespace warmroot::manager
