// The import of an AMI: every refusal, and the whole way from launch to snapshot with a crash, a
// lost answer or a fresh run at each step, under virtual time.
#include "manager/core/importing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/draft.hpp"

namespace warmroot::core {
namespace {

using Stage = ImportStep::Stage;
using ::testing::HasSubstr;
using ::testing::Not;

const Instant kStart{std::chrono::hours{24 * 20'000}};
constexpr const char* kAmi = "ami-0123456789abcdef0";

aws::Image public_image() {
  aws::Image image;
  image.image_id = kAmi;
  image.state = "available";
  image.architecture = "x86_64";
  image.root_device_name = "/dev/xvda";
  image.mappings = {{"/dev/xvda", "snap-public", 8}};
  return image;
}

/// EC2 as far as an import sees it: one call takes effect at once, states move with time.
struct SmallEc2 {
  Instant now = kStart;
  aws::Image image = public_image();
  bool snapshot_usable = false;
  bool cleans = true;  ///< the AMI runs user-data
  std::map<std::string, aws::Instance> instances;
  std::map<std::string, std::string> by_token;
  std::map<std::string, Instant> changes;  ///< when the instance or snapshot moves on
  std::map<std::string, aws::Snapshot> snapshots;
  std::map<std::string, Instant> visible;  ///< listings show new things after this
  int launches = 0;

  ImportView view() {
    ImportView seen;
    seen.image.found = image;
    seen.snapshot_usable = snapshot_usable;
    for (const auto& [id, instance] : instances)
      if (now >= visible[id]) seen.instances.push_back(instance);
    for (const auto& [id, snapshot] : snapshots)
      if (now >= visible[id]) seen.snapshots.push_back(snapshot);
    return seen;
  }

  void apply(const aws::Mutation& call) {
    if (const auto* run = std::get_if<aws::RunInstances>(&call)) {
      if (by_token.contains(run->client_token)) return;
      const auto id = "i-" + std::to_string(++launches);
      by_token[run->client_token] = id;
      aws::Instance made;
      made.instance_id = id;
      made.client_token = run->client_token;
      made.tags = run->instance_tags;
      made.state = aws::InstanceState::pending;
      made.root_device_name = "/dev/xvda";
      made.block_devices = {{"/dev/xvda", "vol-" + id, aws::AttachmentState::attached, true}};
      instances[id] = made;
      visible[id] = now + std::chrono::seconds{2};
      changes[id] = now + std::chrono::seconds{15};
    } else if (const auto* take = std::get_if<aws::CreateSnapshot>(&call)) {
      aws::Snapshot made;
      made.snapshot_id = "snap-" + std::to_string(snapshots.size() + 1);
      made.state = "pending";
      made.tags = take->tags;
      snapshots[made.snapshot_id] = made;
      visible[made.snapshot_id] = now + std::chrono::seconds{3};
      changes[made.snapshot_id] = now + std::chrono::seconds{90};
    } else if (const auto* end = std::get_if<aws::TerminateInstances>(&call)) {
      for (const auto& id : end->instance_ids)
        instances.at(id).state = aws::InstanceState::terminated;
    } else {
      ADD_FAILURE() << "an import makes no such call: " << action_name(call);
    }
  }

  void pass(Milliseconds time) {
    now += time;
    for (auto& [id, instance] : instances) {
      if (now < changes[id]) continue;
      if (instance.state == aws::InstanceState::pending) {
        instance.state = aws::InstanceState::running;
        changes[id] = now + std::chrono::seconds{60};
      } else if (instance.state == aws::InstanceState::running && cleans) {
        instance.state = aws::InstanceState::stopped;
        instance.state_reason_code = "Client.InstanceInitiatedShutdown";
      }
    }
    for (auto& [id, snapshot] : snapshots)
      if (now >= changes[id]) snapshot.state = "completed";
  }

  int live() const {
    int count = 0;
    for (const auto& [id, instance] : instances)
      count += instance.state != aws::InstanceState::terminated;
    return count;
  }
};

/// One process after another; the driver of ami_import.cpp without its transport.
struct Runs {
  SmallEc2 ec2;
  ImportWish wish{"research", kAmi, "", "subnet-1"};
  ImportMemory memory{kStart, {}, {}, 0};
  int calls = 0;
  int die_after_call = 0;   ///< the process dies when this call has taken effect
  int die_before_call = 0;  ///< or just before
  int lose_answer_of = 0;   ///< the call takes effect, the process hears nothing
  int lose_request_of = 0;  ///< the call does not arrive

  void restart() { memory = {ec2.now, {}, {}, 0}; }

  ImportStep step() {
    const auto view = ec2.view();
    for (const auto& instance : view.instances)
      if (instance.state == aws::InstanceState::running && memory.cleaning_since == Instant{})
        memory.cleaning_since = ec2.now;
    if (!memory.over_before) memory.over_before = instances_over(wish, view);
    auto made = next_import_step(wish, view, memory, ec2.now);
    if (!made.call) return made;
    ++calls;
    if (calls == die_before_call) {
      restart();
      return made;
    }
    if (std::holds_alternative<aws::CreateSnapshot>(*made.call)) memory.snapshot_asked = ec2.now;
    if (calls != lose_request_of) ec2.apply(*made.call);
    if (calls == die_after_call) restart();
    return made;
  }

  ImportStep run() {
    ImportStep last;
    for (int i = 0; i < 3'000; ++i) {
      last = step();
      if (last.stage == Stage::done || last.stage == Stage::failed || last.stage == Stage::refused)
        return last;
      EXPECT_FALSE(last.text.empty()) << "something to show each second";
      ec2.pass(std::chrono::seconds{1});
    }
    ADD_FAILURE() << "never ends: " << last.text;
    return last;
  }

  void expect_one_import() {
    const auto last = run();
    EXPECT_EQ(static_cast<int>(last.stage), static_cast<int>(Stage::done)) << last.text;
    EXPECT_EQ(ec2.launches, 1);
    EXPECT_EQ(ec2.snapshots.size(), 1u);
    EXPECT_EQ(ec2.live(), 0) << "the temporary instance is ended";
    EXPECT_EQ(last.snapshot_id, "snap-1");
  }
};

TEST(Import, launches_once_cleans_snapshots_and_ends_the_instance) {
  Runs runs;
  runs.expect_one_import();
  EXPECT_EQ(runs.ec2.by_token.size(), 1u) << "sent again with the same token while invisible";
  const auto& tags = runs.ec2.snapshots.at("snap-1").tags;
  EXPECT_EQ(tags.at(kTagImport), kAmi);
  EXPECT_EQ(tags.at(kTagDeployment), "research");
}

TEST(Import, the_instance_is_on_demand_stops_when_it_powers_off_and_cleans_itself) {
  Runs runs;
  const auto step = runs.step();
  ASSERT_TRUE(step.call);
  const auto& call = std::get<aws::RunInstances>(*step.call);
  EXPECT_FALSE(call.spot);
  EXPECT_TRUE(call.stop_on_shutdown);
  EXPECT_EQ(call.instance_type, "t3.medium");
  EXPECT_EQ(call.subnet_id, "subnet-1");
  EXPECT_EQ(call.max_count, 1);
  for (const char* piece :
       {"/etc/ssh/ssh_host_", "/etc/machine-id", "cloud-init clean", "authorized_keys", "poweroff"})
    EXPECT_THAT(call.user_data, HasSubstr(piece));
  EXPECT_FALSE(call.volume_tags.contains(kTagDeployment)) << "no pool volume";
  EXPECT_FALSE(call.instance_tags.contains(kTagPool)) << "no pool's instance";
}

TEST(Import, goes_on_after_the_process_died_before_or_after_each_call) {
  for (int call = 1; call <= 5; ++call) {
    SCOPED_TRACE(call);
    Runs after;
    after.die_after_call = call;
    after.expect_one_import();
    Runs before;
    before.die_before_call = call;
    before.expect_one_import();
  }
}

TEST(Import, goes_on_after_a_new_run_at_any_second) {
  for (int second = 0; second <= 200; second += 3) {
    SCOPED_TRACE(second);
    Runs runs;
    for (int i = 0; i < second; ++i) {
      runs.step();
      runs.ec2.pass(std::chrono::seconds{1});
    }
    runs.restart();
    runs.expect_one_import();
  }
}

TEST(Import, a_request_that_is_lost_is_made_again) {
  for (int call = 1; call <= 5; ++call) {
    SCOPED_TRACE(call);
    Runs runs;
    runs.lose_request_of = call;
    runs.expect_one_import();
  }
}

TEST(Import, what_is_done_already_is_told_and_not_done_again) {
  Runs runs;
  runs.expect_one_import();
  runs.restart();
  const int calls = runs.calls;
  const auto again = runs.run();
  EXPECT_EQ(runs.calls, calls);
  EXPECT_THAT(again.text, HasSubstr("write snapshot = \"snap-1\" in place of ami"));
}

TEST(Import, an_ami_that_does_not_clean_itself_is_given_up_and_its_instance_ended) {
  Runs runs;
  runs.ec2.cleans = false;
  const auto last = runs.run();
  EXPECT_EQ(static_cast<int>(last.stage), static_cast<int>(Stage::failed));
  EXPECT_THAT(last.text, HasSubstr("has not powered itself off in 15 minutes"));
  EXPECT_EQ(runs.ec2.live(), 0);
  EXPECT_TRUE(runs.ec2.snapshots.empty());
}

/// By people, or by its host.
using ImportStopped = ::testing::TestWithParam<const char*>;

TEST_P(ImportStopped, from_outside_is_not_snapshotted_and_a_later_run_launches_anew) {
  Runs runs;
  runs.ec2.cleans = false;
  for (int i = 0; i < 30; ++i) {
    runs.step();
    runs.ec2.pass(std::chrono::seconds{1});
  }
  runs.ec2.instances.at("i-1").state = aws::InstanceState::stopped;
  runs.ec2.instances.at("i-1").state_reason_code = GetParam();
  EXPECT_THAT(runs.run().text, HasSubstr("was stopped from outside before it was clean"));
  EXPECT_TRUE(runs.ec2.snapshots.empty());
  runs.ec2.cleans = true;
  runs.restart();
  const auto last = runs.run();
  EXPECT_EQ(static_cast<int>(last.stage), static_cast<int>(Stage::done)) << last.text;
  EXPECT_EQ(runs.ec2.launches, 2) << "with a token of its own";
}

INSTANTIATE_TEST_SUITE_P(Reasons, ImportStopped,
                         ::testing::Values("Client.UserInitiatedShutdown", "Server.ScheduledStop"));

TEST(Import, an_instance_that_ends_by_itself_is_told_with_the_reason_and_not_launched_again) {
  Runs runs;
  for (int i = 0; i < 5; ++i) {
    runs.step();
    runs.ec2.pass(std::chrono::seconds{1});
  }
  runs.ec2.instances.at("i-1").state = aws::InstanceState::terminated;
  runs.ec2.instances.at("i-1").state_reason_code = "Client.InternalError";
  const auto last = runs.run();
  EXPECT_EQ(static_cast<int>(last.stage), static_cast<int>(Stage::failed));
  EXPECT_THAT(last.text, HasSubstr("i-1 ended before its root was snapshotted "
                                   "(Client.InternalError): its disk is encrypted"));
  EXPECT_EQ(runs.ec2.launches, 1);
  runs.restart();
  EXPECT_EQ(static_cast<int>(runs.run().stage), static_cast<int>(Stage::done));
  EXPECT_EQ(runs.ec2.launches, 2) << "whoever runs it again wants another one";
}

TEST(Import, somebody_elses_instance_with_our_tags_is_neither_used_nor_ended) {
  Runs runs;
  aws::Instance theirs;
  theirs.instance_id = "i-theirs";
  theirs.state = aws::InstanceState::stopped;
  theirs.tags = {{kTagImport, kAmi}, {kTagDeployment, "research"}};
  runs.ec2.instances["i-theirs"] = theirs;
  const auto last = runs.run();
  EXPECT_EQ(static_cast<int>(last.stage), static_cast<int>(Stage::done)) << last.text;
  EXPECT_EQ(static_cast<int>(runs.ec2.instances.at("i-theirs").state),
            static_cast<int>(aws::InstanceState::stopped));
}

struct Refusal {
  const char* name;
  void (*change)(SmallEc2&);
  const char* text;
};

class ImportRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(ImportRefusals, are_told_with_a_remedy_before_anything_is_launched) {
  Runs runs;
  GetParam().change(runs.ec2);
  const auto last = runs.run();
  EXPECT_EQ(static_cast<int>(last.stage), static_cast<int>(Stage::refused));
  EXPECT_THAT(last.text, HasSubstr(GetParam().text));
  EXPECT_EQ(runs.calls, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ImportRefusals,
    testing::Values(Refusal{"product_code",
                            [](SmallEc2& ec2) { ec2.image.product_codes = {"abc123"}; },
                            "carries the Marketplace product code abc123"},
                    Refusal{"pending", [](SmallEc2& ec2) { ec2.image.state = "pending"; },
                            "is pending, not available"},
                    Refusal{"no_root", [](SmallEc2& ec2) { ec2.image.mappings.clear(); },
                            "has no root snapshot"},
                    Refusal{"architecture", [](SmallEc2& ec2) { ec2.image.architecture = "i386"; },
                            "name one with --type"}),
    [](const auto& row) { return row.param.name; });

TEST(Import, an_ami_whose_snapshot_may_be_used_needs_none) {
  Runs runs;
  runs.ec2.snapshot_usable = true;
  const auto last = runs.run();
  EXPECT_EQ(static_cast<int>(last.stage), static_cast<int>(Stage::done));
  EXPECT_THAT(last.text, HasSubstr("needs no import"));
  EXPECT_EQ(last.snapshot_id, "snap-public");
  EXPECT_EQ(runs.calls, 0);
}

TEST(Import, a_failed_snapshot_is_named) {
  Runs runs;
  aws::Snapshot broken;
  broken.snapshot_id = "snap-broken";
  broken.state = "error";
  runs.ec2.snapshots["snap-broken"] = broken;
  runs.ec2.changes["snap-broken"] = Instant::max();
  EXPECT_THAT(runs.run().text, HasSubstr("snapshot snap-broken failed at EC2: delete it"));
}

TEST(Import, says_what_it_costs) {
  Runs runs;
  EXPECT_EQ(
      import_terms(runs.wish, runs.ec2.image),
      "this launches one t3.medium on demand for about 5 minutes (about 0.003 USD), and keeps "
      "a snapshot of up to 8 GiB (at most 0.40 USD a month; prices of us-east-1); it can be "
      "interrupted and run again at any time");
}

}  // namespace
}  // namespace warmroot::core
