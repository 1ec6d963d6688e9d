// See the header. A bug of sending is a door that changes the bytes behind the ledger's back; a bug
// of judging is an Ec2 that tells the reconciler what a wrong rule would make of the truth.
#include "tests/fleet_sim/planted.hpp"

#include <algorithm>
#include <utility>

#include "manager/aws/ec2_codec.hpp"
#include "manager/core/token.hpp"
#include "tests/fleet_sim/forwarding_ec2.hpp"

namespace warmroot::fleet {

namespace {

enum Bug {
  kNone = 0,
  kLeaseTooEarly = 1,
  kFreshToken = 2,
  kIncompleteView = 3,
  kDetachAnywhere = 4,
  kReplayDiffers = 5,
  kRecordedLate = 6,
  kDeletesUsed = 7,
  kBelievesDeadLease = 8,
  kGoneAtOnce = 9,
  kEndsStrangers = 10,
  kAcrossZones = 11,
  kFlagUnseen = 13,
  kForgetsPending = 14,
  kNoLimits = 16,
  kForgetsReboot = 18,
  kTakesForDamaged = 20,
  kRefusesItsOwn = 21,
  kTakesForAnothers = 22,
};

// ---- wrong judgement ----

class LyingEc2 : public ForwardingEc2 {
 public:
  LyingEc2(int bug, std::unique_ptr<aws::Ec2> truth) : ForwardingEc2(std::move(truth)), bug_(bug) {}

  Result<aws::Page<aws::Volume>> describe_volumes(const aws::DescribeRequest& request) override {
    auto page = inner_.describe_volumes(request);
    if (!page && bug_ == kIncompleteView) return aws::Page<aws::Volume>{};
    if (!page) return page;
    for (auto& volume : page->items) {
      for (auto& attachment : volume.attachments)
        if (bug_ == kFlagUnseen) attachment.delete_on_termination = false;
      const bool leaving = !volume.attachments.empty() &&
                           (dying_.contains(volume.attachments.front().instance_id) ||
                            volume.attachments.front().state != aws::AttachmentState::attached);
      if (bug_ == kLeaseTooEarly && leaving) {
        volume.attachments.clear();
        volume.state = aws::VolumeState::available;
      }
    }
    return page;
  }

  Result<aws::Page<aws::Instance>> describe_instances(
      const aws::DescribeRequest& request) override {
    auto page = inner_.describe_instances(request);
    if (!page && bug_ == kIncompleteView) return aws::Page<aws::Instance>{};
    if (!page) return page;
    for (auto& instance : page->items) {
      if (instance.state == aws::InstanceState::shutting_down) dying_.insert(instance.instance_id);
      if (bug_ == kEndsStrangers)
        instance.client_token = core::client_token({kDeployment, "RunInstances", "p", "", 0, ""});
      if (bug_ == kAcrossZones) instance.availability_zone = "us-east-1b";
    }
    if (bug_ == kForgetsPending)
      std::erase_if(page->items, [](const aws::Instance& instance) {
        return instance.state == aws::InstanceState::pending;
      });
    return page;
  }

 private:
  const int bug_;
  std::set<std::string> dying_;
};

// ---- wrong sending ----

aws::Form without(aws::Form form, const char* key) {
  std::erase_if(form, [&](const auto& pair) { return pair.first == key; });
  return form;
}

/// What the bug makes of a call; the same bytes when it does nothing to it.
std::string changed(int bug, const std::string& body, std::map<std::string, int>& sent) {
  const auto form = aws::parse_form(body);
  const auto action = aws::form_value(form, "Action");
  if (aws::is_read(action)) return body;
  const int before = sent[body]++;
  if (bug == kDetachAnywhere && action == "DetachVolume")
    return aws::encode_form(without(without(form, "InstanceId"), "Device"));
  if (before == 0) return body;
  aws::Form other = form;
  if (bug == kReplayDiffers) {
    std::reverse(other.begin() + 1, other.end());
    return aws::encode_form(other);
  }
  if (bug == kFreshToken)
    for (auto& [key, value] : other)
      if (key == "ClientToken") value += std::to_string(before);
  return bug == kFreshToken ? aws::encode_form(other) : body;
}

}  // namespace

const std::vector<PlantedBug>& planted_bugs() {
  static const std::vector<PlantedBug> bugs = {
      {kLeaseTooEarly, "lease before the old attachment is gone"},
      {kFreshToken, "a fresh token on retry"},
      {kIncompleteView, "create on an incomplete view"},
      {kDetachAnywhere, "detach without InstanceId"},
      {kReplayDiffers, "replay not byte for byte"},
      {kRecordedLate, "intent recorded after sending"},
      {kDeletesUsed, "delete of a used volume"},
      {kBelievesDeadLease, "release believed from a dead lease"},
      {kGoneAtOnce, "one look's absence counts as gone"},
      {kEndsStrangers, "terminates what we did not launch"},
      {kAcrossZones, "attach across zones"},
      {kUncheckedMount, "the bootstrap mounts without a check"},
      {kFlagUnseen, "DeleteOnTermination is not looked at"},
      {kForgetsPending, "instances that are coming are not counted"},
      {kBelievesAnybody, "a report is taken whoever signed it"},
      {kNoLimits, "a pool's limits are not looked at"},
      {kForgetsDamage, "what a node could not repair is forgotten"},
      {kForgetsReboot, "a node that reboots is taken for one that goes"},
      {kForgetsGivenAway, "the bootstrap serves what it gave back before it rebooted"},
      {kTakesForDamaged, "a volume that was never mounted is taken for a damaged one"},
      {kRefusesItsOwn, "a node is told that it gets no volume when it has been given one"},
      {kTakesForAnothers, "a node is told that its volume is another's when it has been given it"},
      {kKeepsRecord, "the bootstrap's record of what it serves outlives its release"},
  };
  return bugs;
}

core::Desired planted_desired(int bug, const core::Desired& desired) {
  auto told = desired;
  for (auto& pool : told.pools)
    if (bug == kNoLimits && pool.launch) {
      pool.launch->max_instances.reset();
      pool.launch->max_price_hour.clear();
    }
  return told;
}

std::unique_ptr<aws::Ec2> planted_ec2(int bug, std::unique_ptr<aws::Ec2> truth) {
  if (bug == kNone) return truth;
  return std::make_unique<LyingEc2>(bug, std::move(truth));
}

void plant(int bug, World&, Host& host, ProcessSetup& setup) {
  if (bug == kRecordedLate) {
    // The row that was written before the call is hidden while it is sent.
    auto check = setup.hooks.before_call;
    setup.hooks.before_call = [check, &host](const aws::Form& form, const std::string& body) {
      std::ignore = host.process.spy->run(
          "UPDATE intents SET action = '~' || action, body = '~' || body WHERE body = ?", {body});
      check(form, body);
      std::ignore = host.process.spy->run(
          "UPDATE intents SET action = substr(action, 2), body = substr(body, 2) "
          "WHERE body = '~' || ?",
          {body});
    };
  }
  const bool sends = bug == kDetachAnywhere || bug == kReplayDiffers || bug == kFreshToken;
  if (!sends) return;
  auto check = setup.hooks.before_call;
  auto sent = std::make_shared<std::map<std::string, int>>();
  setup.hooks.before_call = [check, bug, sent](const aws::Form&, const std::string& body) {
    const auto other = changed(bug, body, *sent);
    check(aws::parse_form(other), other);
  };
}

std::map<std::string, core::NodeReport> planted_reports(
    int bug, const std::map<std::string, core::NodeReport>& board) {
  auto reports = board;
  if (bug == kBelievesDeadLease)
    for (auto& [id, report] : reports) report.volume_id.clear();
  if (bug == kForgetsDamage)
    for (auto& [id, report] : reports) report.reason.clear();
  if (bug == kForgetsReboot)
    for (auto& [id, report] : reports)
      if (report.stage == NodeStage::rebooting) report.stage = NodeStage::draining;
  if (bug == kTakesForDamaged)
    for (auto& [id, report] : reports)
      if (report.reason == kNeverMounted) report.reason = kUncleanBeyondRepair;
  return reports;
}

std::map<std::string, manager::KnownInstance> planted_known(
    int bug, std::map<std::string, manager::KnownInstance> known) {
  if (bug == kRefusesItsOwn)
    for (auto& [id, instance] : known)
      if (!instance.volume_id.empty()) instance.no_volume = "no node is free";
  if (bug != kTakesForAnothers) return known;
  std::map<std::string, manager::KnownInstance> others;
  for (auto& [id, instance] : known)
    if (!instance.volume_id.empty())
      others["not " + id].volume_id = std::exchange(instance.volume_id, {});
  known.merge(others);
  return known;
}

void planted_after_tick(int bug, World& world, Host& host) {
  if (!host.process.running()) return;
  if (bug == kGoneAtOnce)
    std::ignore = host.process.spy->run(
        "UPDATE watches SET looks = 9, since_ms = since_ms - 600000 WHERE key LIKE 'gone/%'");
  if (bug == kDeletesUsed)
    for (const auto& [id, volume] : world.region.volumes())
      if (!volume.root && available(volume) && volume.tags.contains("warmroot:node") &&
          !world.invariants.foreign.contains(id)) {
        // With a token, or the manager would withdraw it instead of sending it.
        const auto call = aws::encode(aws::DeleteVolume{id});
        std::ignore = host.process.spy->run(
            "INSERT INTO intents (action, body, pool, nodes, resources, zone, token, reason, "
            "state, recorded_ms) VALUES (?, ?, '', '', ?, '', 'planted', '', 'open', ?)",
            {call.action, call.body, id,
             std::int64_t{world.region.now().time_since_epoch().count()}});
        return;
      }
}

}  // namespace warmroot::fleet
