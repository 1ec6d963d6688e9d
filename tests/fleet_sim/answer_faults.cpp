// What goes wrong with EC2's answers.
#include "manager/aws/ec2_codec.hpp"
#include "tests/fleet_sim/catalogue.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

namespace {

using sim::Fault;
using sim::FaultKind;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// Calls that a fault may be drawn for; "*" hits whatever comes.
const std::vector<std::string> kTargets = {"*",
                                           "*",
                                           "Describe*",
                                           "DescribeVolumes",
                                           "DescribeInstances",
                                           "AttachVolume",
                                           "AttachVolume",
                                           "DetachVolume",
                                           "CreateVolume",
                                           "RunInstances",
                                           "TerminateInstances",
                                           "CreateTags"};

/// A code of those that EC2 and its neighbours throttle with, the most usual of them half the time.
std::string throttle_code(World& world) {
  std::vector<std::string> codes;
  for (const auto& entry : aws::all_codes())
    if (entry.reaction == aws::Reaction::throttled) codes.emplace_back(entry.code);
  return world.draw.percent(50) ? codes.front() : world.draw.pick(codes);
}

/// Lets it wait for its calls; whether it ever meets one is counted beside.
void arm(World& world, Fault fault) {
  if (fault.kind == FaultKind::throttled || fault.kind == FaultKind::throttled_after)
    fault.code = throttle_code(world);
  world.coverage.add("armed", std::string(to_string(fault.kind)));
  world.front.inject(std::move(fault));
}

/// Some calls soon, or a share of all calls for a spell.
void inject(World& world, FaultKind kind, const std::string& action, Milliseconds delay = {}) {
  Fault fault;
  fault.action = action;
  fault.kind = kind;
  fault.delay = delay;
  if (world.draw.percent(60)) {
    fault.count = world.draw.between(1, 6);
    fault.after = world.draw.below(8);
  } else {
    fault.count = Fault::kAlways;
    fault.share = 0.05 + 0.95 * world.draw.unit();
    fault.until = world.region.now() + world.draw.span(seconds{5}, seconds{120});
  }
  arm(world, std::move(fault));
}

template <FaultKind... kKinds>
bool answers(World& world) {
  const std::vector<FaultKind> kinds = {kKinds...};
  const auto& target = world.draw.pick(kTargets);
  inject(world, world.draw.pick(kinds), target);
  return true;
}

bool late_execution(World& world) {
  const std::vector<std::string> actions = {"AttachVolume", "DetachVolume", "CreateVolume",
                                            "RunInstances", "TerminateInstances"};
  const auto delay = world.draw.span(milliseconds{500}, seconds{20});
  inject(world, FaultKind::late, world.draw.pick(actions), delay);
  return true;
}

bool slow_answers(World& world) {
  const auto delay = world.draw.span(seconds{1}, seconds{30});
  const auto& target = world.draw.pick(kTargets);
  const auto kind = world.draw.percent(50) ? FaultKind::slow_before : FaultKind::slow_after;
  inject(world, kind, target, delay);
  return true;
}

/// The next of the calls that a run makes once or never.
bool seldom_call(World& world) {
  const std::vector<std::string> actions = {
      "CopyVolumes", "CreateLaunchTemplate", "DeleteLaunchTemplate",    "CreateTags",
      "DeleteTags",  "DeleteVolume",         "ModifyInstanceAttribute", "CreateSnapshot"};
  const std::vector<FaultKind> kinds = {FaultKind::lost_after,     FaultKind::lost_before,
                                        FaultKind::truncated,      FaultKind::throttled,
                                        FaultKind::internal_after, FaultKind::unauthorized};
  for (const auto& action : actions) {
    Fault fault;
    fault.action = action;
    fault.kind = world.draw.pick(kinds);
    fault.count = world.draw.between(1, 3);
    fault.until = world.region.now() + world.draw.span(minutes{1}, minutes{6});
    arm(world, std::move(fault));
  }
  return true;
}

/// Some servers are behind; each call meets one.
bool stale_reads(World& world) {
  const auto age = world.draw.span(milliseconds{200}, milliseconds{3500});
  world.region.keep_history(seconds{10});
  world.front.set_replicas({{Milliseconds{0}, Milliseconds{0}}, {age, age}, {age / 2, age / 4}},
                           world.draw.bits());
  world.stale_by = std::max(world.stale_by, age);
  world.replicas = true;
  world.spell(world.draw.span(seconds{20}, minutes{4}), [&world] {
    world.front.set_replicas({});
    world.replicas = false;
    world.region.keep_history(Milliseconds{0});
  });
  return true;
}

bool not_found_after_create(World& world) {
  const auto seed = world.draw.bits();
  const auto unseen = world.draw.span(milliseconds{500}, milliseconds{4500});
  world.front.set_replicas({{Milliseconds{0}, unseen}}, seed);
  world.replicas = true;
  world.spell(world.draw.span(seconds{20}, minutes{4}), [&world] {
    world.front.set_replicas({});
    world.replicas = false;
  });
  return true;
}

bool small_pages(World& world) {
  world.region.knobs.page_cap = world.draw.between(1, 3);
  world.spell(world.draw.span(seconds{20}, minutes{4}),
              [&world] { world.region.knobs.page_cap = 1000; });
  return true;
}

/// The first page of a listing is empty, and says that there are more.
bool empty_pages(World& world) {
  world.region.knobs.page_cap = world.draw.between(1, 3);
  world.region.knobs.empty_first_page = true;
  world.spell(world.draw.span(seconds{20}, minutes{4}), [&world] {
    world.region.knobs.page_cap = 1000;
    world.region.knobs.empty_first_page = false;
  });
  return true;
}

/// A page in the middle of a listing fails, so that what was read is only its beginning.
bool page_fails(World& world) {
  world.region.knobs.page_cap = world.draw.between(1, 3);
  Fault fault;
  const std::vector<FaultKind> kinds = {FaultKind::token_expired, FaultKind::internal,
                                        FaultKind::lost_before, FaultKind::truncated};
  fault.action = "Describe*";
  fault.kind = world.draw.pick(kinds);
  fault.containing = "NextToken=";
  fault.count = Fault::kAlways;
  fault.share = 0.3 + 0.7 * world.draw.unit();
  const auto lasts = world.draw.span(seconds{10}, seconds{150});
  fault.until = world.region.now() + lasts;
  arm(world, std::move(fault));
  world.spell(lasts, [&world] { world.region.knobs.page_cap = 1000; });
  return true;
}

bool wrong_account(World& world) {
  Fault fault;
  fault.action = "*";
  fault.kind = FaultKind::wrong_account;
  fault.count = Fault::kAlways;
  fault.until = world.region.now() + world.draw.span(seconds{2}, minutes{3});
  arm(world, std::move(fault));
  return true;
}

}  // namespace

const std::vector<FaultEntry>& answer_faults() {
  static const std::vector<FaultEntry> faults = {
      {"throttled", "answers",
       answers<FaultKind::throttled, FaultKind::throttled_after, FaultKind::too_many_requests>},
      {"error_500", "answers", answers<FaultKind::internal, FaultKind::internal_after>},
      {"error_503", "answers", answers<FaultKind::unavailable, FaultKind::unavailable_after>},
      {"answer_lost_after", "answers", answers<FaultKind::lost_after, FaultKind::truncated>},
      {"answer_lost_before", "answers", answers<FaultKind::lost_before, FaultKind::unreachable>},
      {"strange_answer", "answers",
       answers<FaultKind::html, FaultKind::html_after, FaultKind::empty_page>},
      {"credentials", "answers",
       answers<FaultKind::auth_failure, FaultKind::expired_token, FaultKind::request_expired,
               FaultKind::unauthorized>},
      {"late_execution", "answers", late_execution},
      {"slow_answers", "answers", slow_answers},
      {"stale_reads", "answers", stale_reads},
      {"not_found_after_create", "answers", not_found_after_create},
      {"small_pages", "answers", small_pages},
      {"empty_pages", "answers", empty_pages},
      {"page_fails", "answers", page_fails},
      {"wrong_account", "answers", wrong_account},
      {"seldom_call", "answers", seldom_call},
  };
  return faults;
}

}  // namespace warmroot::fleet
