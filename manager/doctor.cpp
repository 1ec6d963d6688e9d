// The order of the examination: what everything else stands on comes first.
#include "manager/doctor.hpp"

#include <algorithm>
#include <set>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/paging.hpp"
#include "manager/observer.hpp"

namespace warmroot::manager {
namespace {

/// Requests dated further off fail for some services. Source: ec2.md 7.3.
constexpr Milliseconds kSkewTolerated{5 * 60'000};

/// Types of all pools that launch, each once.
std::vector<std::string> types_of(const core::Desired& desired) {
  std::set<std::string> names;
  for (const auto& pool : desired.pools)
    if (pool.launch)
      names.insert(pool.launch->instance_types.begin(), pool.launch->instance_types.end());
  return {names.begin(), names.end()};
}

/// Names as a filter: one that does not exist would fail a list of them.
TypeFacts look_up_types(aws::Ec2& ec2, const std::vector<std::string>& names) {
  TypeFacts facts;
  if (names.empty()) return facts;
  auto types =
      aws::collect_matching(ec2, &aws::Ec2::describe_instance_types, "instance-type", names);
  if (types) {
    facts.types.emplace();
    for (auto& type : *types) facts.types->insert_or_assign(type.instance_type, type);
  } else {
    facts.types_error = types.error();
  }
  auto offerings = aws::collect_matching(ec2, &aws::Ec2::describe_instance_type_offerings,
                                         "instance-type", names);
  if (offerings)
    facts.offerings = std::move(*offerings);
  else
    facts.offerings_error = offerings.error();
  return facts;
}

Finding check_account(const std::string& account) {
  if (account.empty())
    return Finding::unknown("account", "",
                            "STS was not asked or did not answer, so that whether snapshots and "
                            "AMIs are this account's cannot be told",
                            "let this machine reach the Region's STS endpoint (GetCallerIdentity "
                            "needs no right), then run doctor again");
  return Finding::ok("account", "", "the credentials are of account " + account);
}

/// The looks that everything else needs.
void check_look(const Look& look, std::vector<Finding>& findings) {
  if (look.blind) {
    findings.push_back(
        Finding::wrong("permissions", "", look.blind->message(), remedy_of(*look.blind)));
    return;
  }
  findings.push_back(Finding::ok("permissions", "", "volumes and instances can be listed"));
  for (const std::string& note : look.observed.notes)
    findings.push_back(Finding::unknown("permissions", "", note, remedy_of_quoted(note)));
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::wrong:
      return "wrong";
    case Verdict::unknown:
      break;
  }
  return "unknown";
}

bool healthy(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& each) { return each.verdict == Verdict::wrong; });
}

Finding check_clock(std::optional<Milliseconds> skew) {
  if (!skew)
    return Finding::unknown("clock", "", "the answers carry no date to compare with",
                            "see that chrony or systemd-timesyncd keeps this machine's clock; "
                            "requests more than 5 to 15 minutes off are refused");
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::abs(*skew));
  const std::string apart = std::to_string(seconds.count()) + " s " +
                            (*skew < Milliseconds{0} ? "ahead of" : "behind") + " AWS";
  if (std::chrono::abs(*skew) > kSkewTolerated)
    return Finding::wrong("clock", "", "this machine's clock is " + apart,
                          "set it (chrony or systemd-timesyncd); requests more than 5 to 15 "
                          "minutes off are refused");
  return Finding::ok("clock", "",
                     seconds.count() < 2 ? "this machine's clock agrees with AWS"
                                         : "this machine's clock is " + apart);
}

Finding check_queue(const Ok& read) {
  if (read)
    return Finding::ok("events", "",
                       "the queue of [events] is there; whether its messages may be "
                       "received and deleted is not tried");
  const Error& error = read.error();
  if (error.kind == ErrorKind::unauthorised)
    return Finding::wrong("events", "", error.message(),
                          "allow sqs:GetQueueAttributes, sqs:ReceiveMessage and "
                          "sqs:DeleteMessage (templates/iam-policy-optional.json), or remove "
                          "[events]");
  if (error.kind == ErrorKind::misconfigured || error.kind == ErrorKind::gone)
    return Finding::wrong("events", "", error.message(),
                          "correct queue_url of [events], or remove it");
  return Finding::unknown("events", "", error.message(), remedy_of(error));
}

std::vector<Finding> examine(aws::Ec2& ec2, const DoctorFacts& facts) {
  std::vector<Finding> findings;
  findings.push_back(check_clock(facts.clock_skew));
  findings.push_back(check_account(facts.account));
  Observer observer(ec2);
  Look look = observer.look(facts.desired, {}, facts.now);
  check_look(look, findings);
  check_permissions(ec2, facts, look.observed, findings);
  if (facts.read_queue) findings.push_back(check_queue(facts.read_queue()));
  const TypeFacts types = look_up_types(ec2, types_of(facts.desired));
  for (const auto& pool : facts.desired.pools) {
    check_pool(pool, facts, look.observed, types, findings);
    check_key(pool, facts, look.observed, findings);
    check_block_list(pool, facts, look.observed, findings);
    if (!pool.auto_scaling_group.empty()) check_group(ec2, facts, pool, findings);
  }
  check_quotas(facts, look.observed, types, findings);
  return findings;
}

}  // namespace warmroot::manager
