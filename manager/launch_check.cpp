// Only what the spec or the account's rights are to blame for stops a pool; capacity and quotas are
// the launches' own business.
#include "manager/launch_check.hpp"

#include <algorithm>

#include "manager/aws/ec2_codec.hpp"
#include "manager/core/lacking.hpp"
#include "manager/core/launch_calls.hpp"
#include "manager/core/pool_source.hpp"

namespace warmroot::manager {

namespace {

/// All that the answer depends on. Joined, not hashed: it is made at every look.
std::string content_of(const aws::RunInstances& call) {
  std::string content;
  for (const auto* part :
       {&call.image_id, &call.instance_type, &call.subnet_id, &call.availability_zone,
        &call.key_name, &call.instance_profile, &call.max_price})
    content += *part + "\n";
  for (const auto& group : call.security_group_ids) content += group + "\n";
  for (const auto& [key, value] : call.instance_tags) content += key + "=" + value + "\n";
  return content + call.user_data;
}

}  // namespace

core::Lookup<std::string> LaunchCheck::ask(const aws::Mutation& call, Milliseconds& good_for,
                                           int& allowance) {
  core::Lookup<std::string> lookup;
  good_for = kCheckedFor;
  const auto answer = ec2_.dry_run(call, allowance);
  if (answer) {
    lookup.found = "EC2 would launch it";
    return lookup;
  }
  const Error& error = answer.error();
  if (aws::reaction_for(error.code, "RunInstances") == aws::Reaction::change) {
    lookup.transient = true;  // about one type in one zone; the launch has others
    return lookup;
  }
  if (error.kind == ErrorKind::unauthorised || error.kind == ErrorKind::misconfigured) {
    lookup.error = "EC2 would not launch this: " + error.message();
    good_for = kRefusedCheckFor;
  } else {
    lookup.transient = true;  // no answer about the spec
    if (error.kind == ErrorKind::retry_later || error.kind == ErrorKind::unknown_outcome)
      good_for = kRefusedCheckFor;
  }
  return lookup;
}

std::size_t LaunchCheck::allowed(Instant now) const {
  if (spent_until_ <= now) return kAskedAtOnce;
  const auto owed = (spent_until_ - now + kOneAskedEvery - Milliseconds{1}) / kOneAskedEvery;
  return kAskedAtOnce - std::min(kAskedAtOnce, static_cast<std::size_t>(owed));
}

int LaunchCheck::look(const core::Desired& desired, core::Observed& observed, Instant now) {
  std::map<std::string, Answer> kept;
  std::vector<Question> questions;
  const auto lacking = core::lacking_pools(desired, observed);
  for (const auto& pool : desired.pools) {
    if (!pool.launch || pool.nodes == 0) continue;
    auto call = core::probe_call(observed, desired.deployment, pool);
    auto content = content_of(call);
    auto& answer = kept[pool.name];
    if (const auto known = answers_.find(pool.name); known != answers_.end())
      answer = std::move(known->second);
    if (answer.content == content && now < answer.until)
      observed.launch_checks[pool.name] = answer.lookup;
    // Where nothing is to be launched, or cannot be for another reason, nobody needs the answer.
    else if (lacking.contains(pool.name) && core::find_source(pool, observed).problems.empty())
      questions.push_back({&pool.name, std::move(call), std::move(content)});
  }
  // A clock that was set back owes no more than one burst.
  spent_until_ = std::min(spent_until_, now + kOneAskedEvery * static_cast<int>(kAskedAtOnce));
  left_out_ = leaves_out_ ? questions.size() : 0;
  if (leaves_out_) questions.clear();
  const std::size_t most = allowed(now);
  postponed_ = questions.size() > most;
  if (postponed_) {
    // Those that were never asked for, or longest ago.
    std::stable_sort(questions.begin(), questions.end(), [&](const auto& left, const auto& right) {
      return kept[*left.pool].until < kept[*right.pool].until;
    });
    for (auto later = questions.begin() + static_cast<std::ptrdiff_t>(most);
         later != questions.end(); ++later) {
      auto& check = observed.launch_checks[*later->pool];
      check.error = "its launch has not been checked with EC2 yet";
      check.transient = true;
    }
    questions.resize(most);
  }
  std::vector<std::string> bodies;
  for (const auto& question : questions) bodies.push_back(aws::encode_dry_run(question.call));
  if (!bodies.empty()) ec2_.expect(bodies);
  // Each is asked once, and again as far as that leaves room.
  const int asked_at_most = static_cast<int>(most);
  int spare = asked_at_most - static_cast<int>(questions.size());
  for (auto& question : questions) {
    auto& answer = kept[*question.pool];
    Milliseconds good_for{0};
    int allowance = spare + 1;
    answer.lookup = ask(question.call, good_for, allowance);
    spare = allowance;
    answer.content = std::move(question.content);
    answer.until = now + good_for;
    observed.launch_checks[*question.pool] = answer.lookup;
  }
  answers_ = std::move(kept);
  const int requests = questions.empty() ? 0 : asked_at_most - spare;
  spent_until_ = std::max(spent_until_, now) + kOneAskedEvery * requests;
  return requests;
}

}  // namespace warmroot::manager
