// What the doctor finds in a healthy account and in each kind of sick one, against the simulated
// region; what the region does not model comes from TypedEc2.
#include "tests/doctor_fixture.hpp"

namespace warmroot::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(DoctorTest, a_healthy_account_has_nothing_wrong_and_nothing_is_changed) {
  const auto found = findings();
  EXPECT_TRUE(healthy(found)) << lines(found);
  for (const char* line :
       {"ok clock: this machine's clock agrees with AWS",
        "ok account: ", "ok permissions: ec2:CreateVolume is allowed",
        "ok permissions: ec2:RunInstances is allowed",
        "ok source: snapshot snap-01000000000000001 is complete", "ok snapshot: ",
        "ok product codes: ", "ok instance type: g5.xlarge runs on Nitro and runs x86_64",
        "ok attachments: g5.xlarge takes 28 volumes, 2 are needed", "ok instance tags: ",
        "ok user-data: 10 of 16384 bytes", "unknown permissions: ec2:AttachVolume",
        "ok quota: spot quota L-3819A6DF (G and VT) is 100000 vCPUs, enough for 2 nodes",
        "ok quota: the pools' volumes are 16 GiB of gp3, quota L-7A658B76 is 50 TiB"})
    EXPECT_THAT(lines(found), HasSubstr(line));
  for (const auto& call : front.calls()) EXPECT_FALSE(call.effective) << call.action;
  EXPECT_TRUE(region.volumes().empty());
}

TEST_F(DoctorTest, rights_on_what_is_there_are_asked_about_once_something_is) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  TypedEc2 client(
      fleet.door, [](Milliseconds) {}, [] { return 0.5; });
  const DoctorFacts facts{fleet.desired, account, skew, {}, fleet.region.now()};
  fleet.front.forget_calls();
  const auto found = examine(client, facts);
  for (const char* right :
       {"ec2:AttachVolume", "ec2:DetachVolume", "ec2:TerminateInstances", "ec2:CreateTags",
        "ec2:DeleteTags", "ec2:DeleteVolume", "ec2:ModifyInstanceAttribute", "ec2:CreateSnapshot"})
    EXPECT_THAT(lines(found), HasSubstr(std::string("ok permissions: ") + right + " is allowed"));
  for (const auto& call : fleet.front.calls()) EXPECT_FALSE(call.effective) << call.action;
}

TEST_F(DoctorTest, a_missing_allow_and_the_organisations_deny_read_differently) {
  region.knobs.denied["ec2:RunInstances"] = sim::Denial::implicit;
  expect_wrong("permissions",
               "ec2:RunInstances is denied, which launches instances: nothing allows "
               "it: add it to the policy");
  region.knobs.denied["ec2:RunInstances"] = sim::Denial::policy;
  expect_wrong("permissions", "a policy of this user or role denies it explicitly");
  region.knobs.denied["ec2:RunInstances"] = sim::Denial::organisation;
  expect_wrong("permissions", "a service control policy of the organisation denies it");
  region.knobs.denied = {{"ec2:DescribeVolumes", sim::Denial::implicit}};
  EXPECT_THAT(lines(findings()), HasSubstr("wrong permissions: DescribeVolumes"));
}

TEST_F(DoctorTest, a_queue_that_cannot_be_read_says_what_to_allow_or_correct) {
  EXPECT_THAT(lines(findings()), Not(HasSubstr(" events: "))) << "the spec names none";
  struct Row {
    Ok read;
    Verdict verdict;
    const char* words;
  };
  const Row rows[] = {
      {Ok{}, Verdict::ok, "received and deleted is not tried"},
      {fail(ErrorKind::unauthorised, "AccessDenied"), Verdict::wrong, "sqs:ReceiveMessage"},
      {fail(ErrorKind::misconfigured, "QueueDoesNotExist"), Verdict::wrong, "correct queue_url"},
      {fail(ErrorKind::retry_later, "throttled"), Verdict::unknown, "throttled"},
  };
  for (const Row& row : rows) {
    DoctorFacts facts{desired, account, skew, [this](const core::PoolSpec&) { return user_data; },
                      region.now()};
    facts.read_queue = [&row] { return row.read; };
    const auto found = with_remedies(examine(ec2, facts));
    EXPECT_THAT(lines(found), HasSubstr(std::string(to_string(row.verdict)) + " events: "));
    EXPECT_THAT(lines(found), HasSubstr(row.words));
  }
}

TEST_F(DoctorTest, whether_ebs_lists_the_snapshots_blocks_is_asked_of_the_pools_that_want_it) {
  const auto line_with = [&](std::optional<Ok> answer) {
    std::string asked;
    const DoctorFacts facts{desired,
                            account,
                            skew,
                            {},
                            region.now(),
                            [&](const core::PoolSpec& of, const std::string& snapshot) {
                              asked = of.name + " " + snapshot;
                              return answer;
                            }};
    std::vector<Finding> found = with_remedies(examine(ec2, facts));
    EXPECT_EQ(asked, "p snap-01000000000000001");
    std::erase_if(found, [](const Finding& each) { return each.check != "block list"; });
    return lines(found);
  };
  EXPECT_THAT(line_with(Ok{}), HasSubstr("ok block list: ebs:ListSnapshotBlocks is allowed"));
  EXPECT_EQ(line_with(std::nullopt), "") << "the spec does not want it";
  const auto denied = line_with(Ok{fail(
      ErrorKind::unauthorised,
      "ListSnapshotBlocks: User: x is not authorized to perform: ebs:ListSnapshotBlocks on "
      "resource: y because no identity-based policy allows the ebs:ListSnapshotBlocks action")});
  EXPECT_THAT(denied, HasSubstr("wrong block list: ebs:ListSnapshotBlocks is denied: nothing "
                                "allows it: add it to the policy"));
  EXPECT_THAT(denied, HasSubstr("warm.block_list = false"));
  EXPECT_THAT(line_with(Ok{fail(ErrorKind::unauthorised, "the account may not use the snapshot")}),
              HasSubstr("unknown block list: EBS does not list the blocks of"))
      << "a snapshot of others: no right helps";
  EXPECT_THAT(line_with(Ok{fail(ErrorKind::retry_later, "throttled")}),
              HasSubstr("unknown block list: "));
  pool().snapshot = "snap-0ffffffffffffffff";
  const DoctorFacts unasked{desired, account, skew, {}, region.now(), {}};
  EXPECT_THAT(lines(examine(ec2, unasked)), Not(HasSubstr("block list")));
}

TEST_F(DoctorTest, a_clock_that_is_off_is_wrong_and_one_that_cannot_be_compared_is_unknown) {
  skew = Milliseconds{-6 * 60'000};
  expect_wrong("clock", "360 s ahead of AWS");
  EXPECT_EQ(check_clock(Milliseconds{20'000}).verdict, Verdict::ok);
  EXPECT_THAT(check_clock(Milliseconds{20'000}).text, HasSubstr("20 s behind AWS"));
  EXPECT_EQ(check_clock(std::nullopt).verdict, Verdict::unknown);
}

TEST_F(DoctorTest, sources_that_cannot_be_used_are_wrong) {
  pool().ami = "ami-0ffffffffffffffff";
  expect_wrong("source", "correct the AMI");
  pool().ami.clear();
  pool().snapshot = "snap-0ffffffffffffffff";
  const auto found = lines(findings());
  EXPECT_THAT(found, HasSubstr("wrong source: snap-0ffffffffffffffff is no snapshot"));
  pool() = pool_spec("p", 2, 2, {"us-east-1z"});
  EXPECT_THAT(lines(findings()), HasSubstr("wrong source: zone us-east-1z is not in this Region"));
}

TEST_F(DoctorTest, a_foreign_snapshot_is_said_and_no_mistake) {
  account = "999988887777";
  const auto found = findings();
  EXPECT_TRUE(healthy(found)) << lines(found);
  EXPECT_THAT(lines(found), HasSubstr("account 111122223333's and shared"));
  account.clear();
  EXPECT_THAT(lines(findings()), HasSubstr("unknown account: "));
}

TEST_F(DoctorTest, types_of_another_architecture_or_none_at_all_are_wrong_and_xen_is_said) {
  ec2.types.front().architectures = {"arm64"};
  expect_wrong("instance type", "g5.xlarge is arm64, but base AMI ami-02000000000000002 is x86_64");
  ec2.types.front() = {"g5.xlarge", {"x86_64"}, "xen", 4, false, 28};
  EXPECT_TRUE(healthy(findings()));
  EXPECT_THAT(lines(findings()), HasSubstr("ok instance type: g5.xlarge is Xen"));
  ec2.types.clear();
  expect_wrong("instance type", "g5.xlarge does not exist in this Region");
}

TEST_F(DoctorTest, a_zone_that_offers_none_of_the_types_is_wrong) {
  ec2.offerings = {{"g5.xlarge", "us-east-1b"}};
  expect_wrong("instance type", "us-east-1a offers none of g5.xlarge");
}

TEST_F(DoctorTest, a_type_that_does_not_exist_is_wrong_and_zones_are_judged_by_the_others) {
  const char* wrong = "wrong instance type: g5.typo does not exist in this Region";
  pool().launch->instance_types = {"g5.xlarge", "g5.typo"};
  EXPECT_THAT(lines(findings()), HasSubstr(wrong));
  EXPECT_THAT(lines(findings()), Not(HasSubstr("us-east-1a does not offer")));
  EXPECT_THAT(lines(findings()), Not(HasSubstr("how many volumes g5.typo takes")));
  pool().launch->instance_types = {"g5.typo"};
  EXPECT_THAT(lines(findings()), HasSubstr(wrong));
  EXPECT_THAT(lines(findings()), Not(HasSubstr("offers none of")));
  ec2.types.push_back({"p5.48xlarge", {"x86_64"}, "nitro", 4, false, 28});
  pool().launch->instance_types = {"g5.xlarge", "g5.typo", "p5.48xlarge"};
  EXPECT_THAT(lines(findings()),
              HasSubstr("us-east-1a does not offer p5.48xlarge; the others serve it"));
  pool().launch->instance_types = {"g5.typo", "p5.48xlarge"};
  EXPECT_THAT(lines(findings()), HasSubstr("us-east-1a offers none of p5.48xlarge: add"));
}

TEST_F(DoctorTest, a_type_with_too_few_attachments_is_wrong) {
  ec2.types.front().max_attachments = 1;
  expect_wrong("attachments", "g5.xlarge takes 1 volumes, 2 are needed");
}

TEST_F(DoctorTest, tag_keys_that_the_metadata_service_cannot_show_are_wrong) {
  for (const char* key : {"team/name", "_index", "", "kööl", ".."}) {
    pool().launch->tags = {{key, "x"}};
    const auto found = lines(findings());
    EXPECT_THAT(found, HasSubstr("wrong instance tags: ")) << key;
    EXPECT_THAT(found, HasSubstr("fails every launch")) << key;
  }
  pool().launch->tags = {{"team:name", "x/y"}};
  EXPECT_TRUE(healthy(findings()));
}

TEST_F(DoctorTest, user_data_that_is_too_long_is_wrong) {
  user_data = fail(ErrorKind::misconfigured, "user-data is 20000 bytes, EC2 allows 16384");
  expect_wrong("user-data", "EC2 allows 16384");
}

TEST_F(DoctorTest, a_spot_quota_that_is_too_small_for_the_nodes_is_wrong) {
  region.knobs.spot_vcpu_quota["g"] = 7;
  expect_wrong("quota",
               "spot quota L-3819A6DF (G and VT) is 7 vCPUs, enough for 1 of 2 nodes: ask AWS");
  region.knobs.spot_vcpu_quota["g"] = 8;
  EXPECT_TRUE(healthy(findings())) << lines(findings());
  ec2.types.push_back({"m6i.4xlarge", {"x86_64"}, "nitro", 16, false, 28});
  ec2.offerings.push_back({"m6i.4xlarge", "us-east-1a"});
  pool().launch->instance_types = {"g5.xlarge", "m6i.4xlarge"};
  region.knobs.spot_vcpu_quota = {{"g", 4}, {"standard", 16}};
  EXPECT_THAT(lines(findings()), HasSubstr("ok quota: spot quota L-34B43A08 (standard) is 16 "
                                           "vCPUs, L-3819A6DF (G and VT) is 4 vCPUs, enough for 2 "
                                           "nodes of the smaller types only"))
      << "one node of each";
  pool().running = 0;
  EXPECT_THAT(lines(findings()), Not(HasSubstr("spot quota"))) << "nothing runs";
}

TEST_F(DoctorTest, p5_has_a_spot_quota_of_its_own_and_on_demand_ones_count_where_it_may_be_bought) {
  ec2.types.push_back({"p5.48xlarge", {"x86_64"}, "nitro", 192, false, 28});
  ec2.types.push_back({"p6-b200.48xlarge", {"x86_64"}, "nitro", 192, false, 28});
  ec2.offerings.push_back({"p5.48xlarge", "us-east-1a"});
  ec2.offerings.push_back({"p6-b200.48xlarge", "us-east-1a"});
  pool().launch->instance_types = {"p5.48xlarge"};
  region.knobs.spot_vcpu_quota = {{"p", 10'000}, {"p5", 0}};
  expect_wrong("quota", "spot quota L-C4BD4855 (P5 and later) is 0 vCPUs, enough for 0 of 2 nodes");
  region.knobs.spot_vcpu_quota = {{"p", 0}, {"p5", 384}};
  EXPECT_TRUE(healthy(findings())) << lines(findings());
  EXPECT_THAT(lines(findings()), Not(HasSubstr("on-demand quota")));
  pool().launch->on_demand_fallback = true;
  region.knobs.on_demand_vcpu_quota["p"] = 192;
  expect_wrong("quota", "on-demand quota L-417A185B (P) is 192 vCPUs, enough for 1 of 2 nodes");
  region.knobs.on_demand_vcpu_quota.clear();
  pool().launch->instance_types = {"p6-b200.48xlarge"};
  EXPECT_THAT(lines(findings()),
              HasSubstr("which of them p6-b200.48xlarge counts against is not known"));
}

TEST_F(DoctorTest, pools_that_each_fit_a_quota_and_do_not_fit_together_are_wrong) {
  desired.pools.push_back(pool_spec("q", 3, 3));
  region.knobs.spot_vcpu_quota["g"] = 19;
  expect_wrong("quota",
               "2 pools together need 20 vCPUs of spot quota L-3819A6DF (G and VT), "
               "which is 19: ask AWS");
  region.knobs.spot_vcpu_quota["g"] = 20;
  EXPECT_TRUE(healthy(findings())) << lines(findings());
}

TEST_F(DoctorTest, volumes_beyond_the_storage_quota_are_wrong) {
  pool().nodes = 10;
  pool().volumes.size_gib = 5'120;
  EXPECT_THAT(lines(findings()),
              HasSubstr("ok quota: the pools' volumes are 50 TiB of gp3, quota L-7A658B76 is 50"));
  pool().stock.spares = 1;
  expect_wrong("quota", "the pools' volumes are 55 TiB of gp3, quota L-7A658B76 is 50 TiB: ask");
}

TEST_F(DoctorTest, a_quota_that_cannot_be_read_is_unknown_with_where_to_look) {
  region.knobs.denied["servicequotas:GetServiceQuota"] = sim::Denial::implicit;
  const auto denied = findings();
  EXPECT_TRUE(healthy(denied)) << lines(denied);
  EXPECT_THAT(lines(denied),
              HasSubstr("unknown quota: the pool needs 8 vCPUs at most of spot, and the quota "
                        "could not be read (servicequotas:GetServiceQuota is denied, nothing "
                        "allows it: add it to the policy"));
  EXPECT_THAT(lines(denied), HasSubstr("look at L-3819A6DF (G and VT) in Service Quotas"));
  asks_account = false;
  EXPECT_THAT(lines(findings()), HasSubstr("unknown quota: the pool needs 8 vCPUs at most"));
  asks_account = true;
  region.knobs.denied.clear();
  ec2.types.clear();
  EXPECT_THAT(lines(findings()), Not(HasSubstr("spot quota"))) << "the type does not exist";
}

TEST_F(DoctorTest, an_encrypted_pools_key_has_to_be_there_enabled_and_for_encryption) {
  pool().volumes.encrypted = true;
  EXPECT_THAT(lines(findings()),
              HasSubstr("unknown KMS key: the account's default key for EBS is not asked about"));
  pool().volumes.kms_key = "alias/aws/ebs";
  EXPECT_THAT(lines(findings()), HasSubstr("unknown KMS key: key alias/aws/ebs is not asked"));
  EXPECT_TRUE(keys_asked.empty()) << "to describe an alias of AWS's own may make its key";
  pool().volumes.kms_key = "alias/research";
  expect_wrong("KMS key", "Alias alias/research is not found");
  region.knobs.kms_keys["alias/research"] = {};
  EXPECT_TRUE(healthy(findings())) << lines(findings());
  EXPECT_THAT(lines(findings()), HasSubstr("ok KMS key: key alias/research is enabled and encrypts"
                                           ". It must allow CreateGrant"));
  region.knobs.kms_keys["alias/research"].state = "PendingDeletion";
  expect_wrong("KMS key", "key alias/research is in state PendingDeletion: enable it");
  region.knobs.kms_keys["alias/research"] = {"Enabled", "SIGN_VERIFY", "RSA_2048"};
  expect_wrong("KMS key", "is a key for SIGN_VERIFY of type RSA_2048, EBS takes symmetric");
  region.knobs.denied["kms:DescribeKey"] = sim::Denial::implicit;
  EXPECT_TRUE(healthy(findings())) << lines(findings());
  EXPECT_THAT(lines(findings()),
              HasSubstr("unknown KMS key: key alias/research could not be looked at: "
                        "kms:DescribeKey is denied: nothing allows it"));
}

TEST_F(DoctorTest, a_fleets_right_to_remove_templates_is_asked_about_on_one_of_ours) {
  pool().launch->instance_types = {"g5.xlarge", "g4dn.xlarge"};
  ec2.types.push_back({"g4dn.xlarge", {"x86_64"}, "nitro", 4, false, 28});
  ec2.offerings.push_back({"g4dn.xlarge", "us-east-1a"});
  EXPECT_THAT(lines(findings()),
              HasSubstr("unknown permissions: ec2:DeleteLaunchTemplate can be asked about only"));
  ASSERT_TRUE(region.create_template("ours", {}, {{"warmroot:deployment", "research"}}, "", ""));
  EXPECT_THAT(lines(findings()),
              HasSubstr("ok permissions: ec2:DeleteLaunchTemplate is allowed, which removes"));
  region.knobs.denied["ec2:DeleteLaunchTemplate"] = sim::Denial::implicit;
  expect_wrong("permissions", "ec2:DeleteLaunchTemplate is denied, which removes launch templates");
  EXPECT_EQ(region.templates().size(), 1U) << "nothing was deleted";
}

TEST_F(DoctorTest, a_missing_right_that_imports_alone_need_is_no_mistake) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  fleet.region.knobs.denied["ec2:CreateSnapshot"] = sim::Denial::organisation;
  TypedEc2 client(
      fleet.door, [](Milliseconds) {}, [] { return 0.5; });
  const auto found = examine(client, {fleet.desired, account, skew, {}, fleet.region.now()});
  EXPECT_TRUE(healthy(found)) << lines(found);
  EXPECT_THAT(lines(found),
              HasSubstr("unknown permissions: ec2:CreateSnapshot is denied, which `ami import` "
                        "needs and nothing else: a service control policy"));
}

TEST_F(DoctorTest, a_spec_that_asks_for_snapshots_of_unclean_volumes_needs_the_right_to_them) {
  auto pool = pool_spec("p", 1, 1);
  pool.volumes.snapshot_unclean = true;
  Fleet fleet(pool);
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  fleet.region.knobs.denied["ec2:CreateSnapshot"] = sim::Denial::implicit;
  TypedEc2 client(
      fleet.door, [](Milliseconds) {}, [] { return 0.5; });
  const auto found = examine(client, {fleet.desired, account, skew, {}, fleet.region.now()});
  EXPECT_FALSE(healthy(found));
  EXPECT_THAT(lines(found),
              HasSubstr("wrong permissions: ec2:CreateSnapshot is denied, which keeps "
                        "volumes as they were left uncleanly"));
}

TEST_F(DoctorTest, a_group_whose_instances_lack_our_tag_or_are_elsewhere_is_wrong) {
  pool().launch.reset();
  pool().auto_scaling_group = "workers";
  EXPECT_THAT(lines(findings()), HasSubstr("unknown group: Auto Scaling group workers has no "));
  sim::RunInstancesArgs args;
  args.image_id = kBaseAmi;
  args.type = "g5.xlarge";
  args.zone = "us-east-1a";
  args.instance_tags = {{"warmroot:pool", "p"}};
  ASSERT_TRUE(region.launch_in_group("workers", args));
  region.advance_by(std::chrono::seconds{10});
  EXPECT_TRUE(healthy(findings())) << lines(findings());
  EXPECT_THAT(lines(findings()), HasSubstr("ok group: 1 instance of Auto Scaling group workers can "
                                           "be served; the pool has 2 nodes for them"));
  args.zone = "us-east-1b";
  ASSERT_TRUE(region.launch_in_group("workers", args));
  args.instance_tags = {};
  ASSERT_TRUE(region.launch_in_group("workers", args));
  region.advance_by(std::chrono::seconds{10});
  expect_wrong("group", "(us-east-1b) of Auto Scaling group workers will get no volume: give");
  expect_wrong("group", "of Auto Scaling group workers will get no volume: tag them");
}

TEST_F(DoctorTest, a_base_ami_of_the_marketplace_needs_a_subscription) {
  EXPECT_THAT(lines(findings()),
              HasSubstr("ok product codes: base AMI ami-02000000000000002 has none"));
  auto catalog = sim::builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"});
  for (auto& image : catalog.images)
    if (image.id == kBaseAmi) image.product_codes = {"8fvdn95s5ev33cprr62nq3q7t"};
  sim::Region sold(catalog, {}, hardware, kFleetStart);
  sim::QueryFront desk(sold);
  sim::RegionTransport to_desk(desk);
  TypedEc2 client(
      to_desk, [](Milliseconds) {}, [] { return 0.5; });
  const auto found = with_remedies(examine(client, facts()));
  EXPECT_TRUE(healthy(found)) << "EC2 does not tell whether the account is subscribed";
  EXPECT_THAT(lines(found), HasSubstr("ok product codes: AMI ami-01000000000000001 has none"));
  EXPECT_THAT(lines(found),
              HasSubstr("unknown product codes: base AMI ami-02000000000000002 has Marketplace "
                        "product code 8fvdn95s5ev33cprr62nq3q7t, and launches fail with "
                        "OptInRequired until the account is subscribed: subscribe to it in AWS "
                        "Marketplace, or name another base AMI"));
  pool().launch.reset();
  EXPECT_THAT(lines(examine(client, facts())), Not(HasSubstr("unknown product codes")));
}

TEST_F(DoctorTest, a_base_ami_that_the_volumes_are_made_from_is_warned_of) {
  EXPECT_THAT(lines(findings()),
              HasSubstr("ok base AMI: ami-02000000000000002 has another root than the volumes"));
  pool().launch->base_ami = pool().ami;
  const std::string warning =
      "unknown base AMI: ami-01000000000000001 is what the volumes are made from, too: unless the "
      "base boots by GRUB with an initramfs, an instance that is reset may come up on its volume";
  EXPECT_THAT(lines(findings()), HasSubstr(warning));
  pool().ami.clear();
  pool().snapshot = "snap-01000000000000001";
  EXPECT_THAT(lines(findings()), HasSubstr(warning)) << "by its root's snapshot";
}

TEST_F(DoctorTest, a_launch_that_lacks_the_subscription_says_to_subscribe) {
  sim::Fault fault{"RunInstances", sim::FaultKind::refused, sim::Fault::kAlways};
  fault.status = 401;
  fault.code = "OptInRequired";
  fault.message =
      "In order to use this AWS Marketplace product you need to accept terms and subscribe. To do "
      "so please visit https://aws.amazon.com/marketplace/pp?sku=8fvdn95s5ev33cprr62nq3q7t";
  front.faults().inject(fault);
  expect_wrong("permissions", "sku=8fvdn95s5ev33cprr62nq3q7t");
  expect_wrong("permissions", ": subscribe to the AMI's product in AWS Marketplace");
}

/// One image and one subnet in an observation made by hand: what the region's catalogue lacks.
TEST(DoctorPool, product_codes_and_full_subnets_are_wrong) {
  core::PoolSpec pool = pool_spec("p", 3, 3);
  pool.launch->subnets["us-east-1a"] = "subnet-1";
  core::Desired desired{"research", {pool}};
  core::Observed observed;
  observed.complete = true;
  aws::Image image;
  image.image_id = kVolumeAmi;
  image.state = "available";
  image.root_device_name = "/dev/xvda";
  image.mappings = {{"/dev/xvda", "snap-1", 8}};
  image.product_codes = {"abc123"};
  observed.images[kVolumeAmi].found = image;
  observed.images[kBaseAmi].found = image;
  aws::Snapshot snapshot;
  snapshot.snapshot_id = "snap-1";
  snapshot.state = "completed";
  observed.snapshots["snap-1"].found = snapshot;
  observed.subnets["subnet-1"].found = aws::Subnet{"subnet-1", "vpc-1", "us-east-1a", 2};
  std::vector<Finding> found;
  desired.pools = {pool};
  check_pool(pool, DoctorFacts{desired, "", {}, {}, {}}, observed, {}, found);
  std::string text;
  for (const Finding& each : found)
    text += std::string(to_string(each.verdict)) + " " + each.check + ": " + each.sentence() + "\n";
  EXPECT_THAT(text, HasSubstr("wrong product codes: AMI ami-01000000000000001 has Marketplace"));
  EXPECT_THAT(text, HasSubstr("unknown product codes: base AMI ami-02000000000000002 has Market"));
  EXPECT_THAT(text, HasSubstr("wrong subnet: subnet-1 in us-east-1a has 2 free addresses for 3"));
  EXPECT_THAT(text, HasSubstr("unknown instance type: g5.xlarge could not be looked up"));
  EXPECT_THAT(text, Not(HasSubstr("KMS key")));

  observed.snapshots["snap-1"].found->encrypted = true;
  aws::Instance serves;
  serves.state = aws::InstanceState::running;
  serves.subnet_id = "subnet-1";
  serves.tags[core::kTagPool] = pool.name;
  observed.instances.insert_or_assign("i-1", serves);
  found.clear();
  check_pool(pool, DoctorFacts{desired, "", {}, {}, {}}, observed, {}, found);
  check_key(pool, DoctorFacts{desired, "", {}, {}, {}}, observed, found);
  text.clear();
  for (const Finding& each : found)
    text += std::string(to_string(each.verdict)) + " " + each.check + ": " + each.sentence() + "\n";
  EXPECT_THAT(text, HasSubstr("ok subnet: subnet-1 in us-east-1a has 2 free addresses for 2"))
      << "one has its address already";
  EXPECT_THAT(text, HasSubstr("unknown KMS key: snapshot snap-1 is encrypted"));
  EXPECT_THAT(text, HasSubstr("AWSServiceRoleForEC2Spot"));
}

}  // namespace
}  // namespace warmroot::manager
