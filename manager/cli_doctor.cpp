// `warmroot doctor`: prints what doctor.hpp finds. Needs the spec and credentials, no state folder.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "manager/aws/account_facts_client.hpp"
#include "manager/aws/ebs_direct_client.hpp"
#include "manager/aws/sqs_client.hpp"
#include "manager/cli.hpp"
#include "manager/cli_context.hpp"
#include "manager/cli_progress.hpp"
#include "manager/doctor.hpp"

namespace warmroot::manager {
namespace {

Table finding_table(const std::vector<Finding>& findings) {
  Table table;
  table.columns = {{"VERDICT", "verdict"}, {"CHECK", "check"}, {"POOL", "pool"}, {"WHAT", "text"}};
  for (const Finding& each : findings)
    table.rows.push_back({std::string(to_string(each.verdict)), each.check,
                          text_or_absent(each.pool), each.sentence()});
  return table;
}

std::string summary(const std::vector<Finding>& findings) {
  const auto count = [&findings](Verdict verdict) {
    return std::count_if(findings.begin(), findings.end(),
                         [verdict](const Finding& each) { return each.verdict == verdict; });
  };
  return fmt::format("{} ok, {} wrong, {} unknown\n", count(Verdict::ok), count(Verdict::wrong),
                     count(Verdict::unknown));
}

/// Asks once for as little as possible: whether somebody answers, and what time it is there.
Result<std::optional<Milliseconds>> skew_of(aws::Connection& connection) {
  std::optional<Milliseconds> skew;
  connection.transport->set_on_exchange([&skew](const aws::HttpExchange& exchange) {
    if (exchange.date) skew = *exchange.date - wall_clock();
  });
  const auto zones = connection.ec2->describe_availability_zones();
  connection.transport->set_on_exchange({});
  if (!zones && zones.error().kind != ErrorKind::unauthorised) return fail(zones.error());
  return skew;
}

/// One page of the snapshot's list, the smallest.
auto block_lister(const Config& config, const aws::Connection& connection) {
  return [&](const core::PoolSpec& pool, const std::string& snapshot_id) -> std::optional<Ok> {
    if (!pool.warm.enabled || config.without_block_lists.contains(pool.name)) return std::nullopt;
    auto client = aws::EbsDirectClient::of_connection(connection, nullptr);
    if (!client) return Ok{fail(client.error())};
    return client->probe(snapshot_id);
  };
}

std::function<Ok()> queue_reader(const Config& config, const aws::Connection& connection) {
  if (config.queue_url.empty()) return {};
  return [&config, &connection]() -> Ok {
    TRY_ASSIGN(auto queue,
               aws::resolve_queue(config.queue_url, connection.settings.choices,
                                  connection.settings.region, *connection.surroundings));
    return aws::SqsClient(std::move(queue), connection, nullptr).probe();
  };
}

Result<int> run(const Options& options) {
  TRY_ASSIGN(const Config config, load_spec(options.spec));
  TRY_ASSIGN(aws::Connection connection, aws::connect_ec2(aws_choices(options, config)));
  Progress progress;
  progress.waiting_for("EC2 to answer the doctor's questions");
  TRY_ASSIGN(const auto skew, skew_of(connection));
  const auto identity = connection.identify();
  const UserDataSource user_data(config, load_bootstrap(options.bootstrap), kDefaultPort);
  aws::AccountFactsClient account(connection);
  const DoctorFacts facts{config.desired,
                          identity ? identity->account : std::string(),
                          skew,
                          user_data,
                          wall_clock(),
                          block_lister(config, connection),
                          queue_reader(config, connection),
                          [&account](const std::string& service, const std::string& code) {
                            return account.service_quota(service, code);
                          },
                          [&account](const std::string& key) { return account.key(key); }};
  const std::vector<Finding> findings = examine(*connection.ec2, facts);
  fmt::print("{}", formatted(finding_table(findings), options.output));
  std::fflush(stdout);
  if (options.output == OutputForm::table) fmt::print("{}", summary(findings));
  return healthy(findings) ? kSuccessStatus : kUnmetStatus;
}

}  // namespace

int run_doctor(const Options& options) {
  const Result<int> status = run(options);
  return status ? *status : tell_error(status.error());
}

}  // namespace warmroot::manager
