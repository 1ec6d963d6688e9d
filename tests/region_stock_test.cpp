// The simulated region's ways to make volumes ahead of need: snapshots, paid initialisation,
// copies, fast snapshot restore, and what DescribeVolumeStatus says of them.
#include "tests/region_fixture.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

class StockTest : public RegionTest {
 protected:
  QueryReply copy(const std::string& source, const std::string& more = "") {
    return call("Action=CopyVolumes&SourceVolumeId=" + source + more);
  }
  std::string status(const std::string& id) {
    return call("Action=DescribeVolumeStatus&VolumeId.1=" + id).body;
  }
  std::string progress(const std::string& id) { return element(status(id), "progress"); }
  std::string available(const std::string& more = "") {
    const auto id = volume(more);
    region.advance_by(5s);
    return id;
  }
};

// ---- initialisation ----

TEST_F(StockTest, a_paid_rate_reads_the_snapshots_data_at_that_rate) {
  const auto id = volume("&VolumeInitializationRate=100");
  EXPECT_EQ(region.volume(id)->init_end - region.volume(id)->create_time, 81'920ms)
      << "8 GiB at 100 MiB/s";
  EXPECT_THAT(call("Action=DescribeVolumes&VolumeId.1=" + id).body,
              HasSubstr("<volumeInitializationRate>100</volumeInitializationRate>"));
  EXPECT_THAT(status(id), AllOf(HasSubstr("<initializationType>provisioned-rate<"),
                                HasSubstr("estimatedTimeToCompleteInSeconds")));
}

TEST_F(StockTest, progress_is_up_to_five_minutes_old) {
  const auto id = available("&VolumeInitializationRate=100");
  region.advance_by(200s);
  EXPECT_EQ(progress(id), "0") << "long done, and not told yet";
  EXPECT_THAT(status(id), HasSubstr("<status>initializing</status>"));
  region.advance_by(100s);
  EXPECT_EQ(progress(id), "100");
  EXPECT_THAT(status(id), HasSubstr("<status>completed</status>"));
}

TEST_F(StockTest, without_a_rate_the_blocks_come_slowly) {
  Catalog catalog = builtin_catalog("us-east-1", {"us-east-1a"});
  catalog.snapshots[0].size_gib = 100;
  catalog.snapshots[0].data_gib = 20;
  Region big(catalog, RegionTimes{}, hardware, start_time());
  CreateVolumeArgs args;
  args.zone = "us-east-1a";
  args.snapshot_id = kSnapshot;
  const auto made = big.create_volume(args);
  EXPECT_EQ(made->init_type, "default");
  EXPECT_EQ(made->init_end - made->create_time, 20 * 34'000ms) << "the data, not the size";
  big.advance_by(10min);
  EXPECT_EQ(big.shown_progress(*made), 88);
  EXPECT_EQ(element(status(volume()), "initializationType"), "default");
}

TEST_F(StockTest, an_empty_volume_has_nothing_to_initialise) {
  const auto id =
      element(call("Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1").body, "volumeId");
  EXPECT_EQ(element(status(id), "status"), "insufficient-data") << "still creating";
  region.advance_by(5s);
  EXPECT_EQ(element(status(id), "status"), "ok");
  EXPECT_THAT(status(id), Not(HasSubstr("initializ")));
  ASSERT_TRUE(region.impair_volume(id));
  EXPECT_EQ(element(status(id), "status"), "impaired");
  EXPECT_EQ(count_of(call("Action=DescribeVolumeStatus&Filter.1.Name=volume-status.status"
                          "&Filter.1.Value.1=impaired")
                         .body,
                     "<volumeId>"),
            1);
  EXPECT_EQ(code("Action=DescribeVolumeStatus&VolumeId.1=vol-00000000000000000"),
            "InvalidVolume.NotFound");
}

TEST_F(StockTest, paid_rates_share_the_regions_quota) {
  region.knobs.init_rate_quota = 500;
  const std::string create =
      "Action=CreateVolume&AvailabilityZone=us-east-1a&SnapshotId=" + std::string(kSnapshot) +
      "&VolumeInitializationRate=";
  EXPECT_EQ(code(create + "300"), "");
  EXPECT_EQ(code(create + "201"), "VolumeInitializationRateLimitExceeded");
  EXPECT_EQ(code(create + "200"), "");
  region.advance_by(1min);
  EXPECT_EQ(code(create + "300"), "") << "what is done counts no longer";
}

// ---- copies ----

TEST_F(StockTest, a_copy_lies_in_its_sources_zone_and_has_no_snapshot) {
  const auto source = available("&Encrypted=true&KmsKeyId=k");
  const auto reply = copy(source,
                          "&VolumeType=gp3&TagSpecification.1.ResourceType=volume"
                          "&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=b");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const auto id = element(reply.body, "volumeId");
  EXPECT_EQ(element(reply.body, "sourceVolumeId"), source);
  EXPECT_EQ(element(reply.body, "status"), "creating");
  EXPECT_EQ(element(reply.body, "kmsKeyId"), "k");
  EXPECT_EQ(region.volume(id)->snapshot_id, "");
  EXPECT_EQ(region.volume(id)->zone, "us-east-1a");
  EXPECT_EQ(region.volume(id)->tags.at("a"), "b");
  region.advance_by(5s);
  EXPECT_EQ(disk_state(id), "available") << "at once, long before it is initialised";
  EXPECT_EQ(element(status(id), "initializationType"), "volume-copy");
  EXPECT_EQ(element(copy(available("&Size=9"), "").body, "volumeType"), "gp2") << "the default";
}

TEST_F(StockTest, one_copy_of_a_source_and_five_in_the_region_at_a_time) {
  const auto first = available();
  const auto made = element(copy(first).body, "volumeId");
  EXPECT_EQ(copy(first).code, "ConcurrentCopyVolumeLimitExceeded");
  region.advance_by(5s);
  EXPECT_EQ(copy(made).code, "IncorrectState") << "a copy under way cannot be copied";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(copy(available()).code, "");
  EXPECT_EQ(copy(available()).code, "CopyVolumesLimitExceeded");
  region.advance_by(3min);
  EXPECT_EQ(copy(first).code, "") << "8 GiB are done after 169 s";
  EXPECT_EQ(copy(made).code, "");
}

TEST_F(StockTest, copies_that_ec2_refuses_and_replays) {
  const auto source = available();
  EXPECT_EQ(copy("vol-00000000000000000").code, "InvalidVolume.NotFound");
  EXPECT_EQ(copy(volume()).code, "IncorrectState") << "creating";
  EXPECT_EQ(copy(source, "&Size=7").code, "InvalidParameterValue");
  EXPECT_EQ(copy(source, "&VolumeInitializationRate=200").code, "UnknownParameter");
  EXPECT_EQ(copy(source, "&DryRun=true").code, "DryRunOperation");
  const auto first = copy(source, "&ClientToken=t");
  EXPECT_EQ(element(copy(source, "&ClientToken=t").body, "volumeId"),
            element(first.body, "volumeId"));
  EXPECT_EQ(copy(source, "&ClientToken=t&Size=9").code, "IdempotentParameterMismatch");
  EXPECT_NE(volume("&ClientToken=t"), element(first.body, "volumeId")) << "tokens of another call";
  region.knobs.copies_need_encryption = true;
  EXPECT_EQ(copy(available()).code, "UnsupportedOperation");
}

// ---- snapshots ----

TEST_F(StockTest, a_snapshot_is_pending_and_then_a_source_of_volumes) {
  const auto disk = available();
  const auto made = call("Action=CreateSnapshot&VolumeId=" + disk + "&Description=d");
  const auto id = element(made.body, "snapshotId");
  EXPECT_EQ(element(made.body, "status"), "pending");
  EXPECT_EQ(element(made.body, "progress"), "") << "nothing at first";
  const std::string create = "Action=CreateVolume&AvailabilityZone=us-east-1a&SnapshotId=" + id;
  EXPECT_EQ(code(create), "IncorrectState");
  region.advance_by(30s);
  const std::string describe = "Action=DescribeSnapshots&Owner.1=self&SnapshotId.1=" + id;
  EXPECT_EQ(element(call(describe).body, "progress"), "50%");
  EXPECT_EQ(element(call(describe).body, "volumeId"), disk);
  region.advance_by(30s);
  EXPECT_EQ(element(call(describe).body, "status"), "completed");
  EXPECT_EQ(code(create), "");
  EXPECT_EQ(code("Action=DeleteSnapshot&SnapshotId=" + id), "");
  EXPECT_EQ(code(describe), "InvalidSnapshot.NotFound");
}

TEST_F(StockTest, snapshots_that_ec2_refuses) {
  const auto disk = available();
  const std::string create = "Action=CreateSnapshot&VolumeId=" + disk;
  EXPECT_EQ(code(create), "");
  EXPECT_EQ(code(create), "SnapshotCreationPerVolumeRateExceeded");
  for (int i = 0; i < 3; ++i) {
    region.advance_by(15s);
    EXPECT_EQ(code(create), "");
  }
  EXPECT_EQ(code("Action=CreateSnapshot&VolumeId=vol-00000000000000000"), "InvalidVolume.NotFound");
  EXPECT_EQ(code("Action=CreateSnapshot&VolumeId=" + volume()), "IncorrectState");
  EXPECT_EQ(code("Action=DeleteSnapshot&SnapshotId=" + std::string(kSnapshot)),
            "InvalidSnapshot.InUse");
  EXPECT_EQ(code("Action=DeleteSnapshot&SnapshotId=snap-x"), "InvalidSnapshotID.Malformed");
}

// ---- fast snapshot restore ----

TEST_F(StockTest, fast_restore_goes_through_its_states_and_gives_credits) {
  const std::string places = "&AvailabilityZone.1=us-east-1a&SourceSnapshotId.1=";
  const auto asked = call("Action=EnableFastSnapshotRestores" + places + kSnapshot);
  EXPECT_EQ(element(asked.body, "state"), "enabling");
  EXPECT_FALSE(region.volume(volume())->fast_restored);
  const auto state = [&] {
    return element(call("Action=DescribeFastSnapshotRestores&Filter.1.Name=snapshot-id"
                        "&Filter.1.Value.1=" +
                        std::string(kSnapshot))
                       .body,
                   "state");
  };
  region.advance_by(61s);
  EXPECT_EQ(state(), "optimizing");
  region.advance_by(1min);
  EXPECT_EQ(state(), "enabled") << "60 minutes a TiB";
  EXPECT_FALSE(region.volume(volume())->fast_restored) << "the bucket starts empty";
  region.advance_by(6min);
  const auto fast = volume();
  EXPECT_TRUE(region.volume(fast)->fast_restored) << "ten an hour";
  EXPECT_THAT(call("Action=DescribeVolumes&VolumeId.1=" + fast).body,
              HasSubstr("<fastRestored>true</fastRestored>"));
  EXPECT_FALSE(region.volume(volume())->fast_restored);
  region.advance_by(6min);
  EXPECT_FALSE(region.volume(volume("&VolumeInitializationRate=200"))->fast_restored)
      << "the paid rate wins";
  EXPECT_EQ(code("Action=DisableFastSnapshotRestores" + places + kSnapshot), "");
  EXPECT_EQ(state(), "disabling");
  region.advance_by(2min);
  EXPECT_EQ(state(), "disabled");
}

TEST_F(StockTest, fast_restore_fails_place_by_place_inside_success) {
  region.knobs.fsr_quota = 1;
  const auto reply = call(
      "Action=EnableFastSnapshotRestores&AvailabilityZone.1=us-east-1a"
      "&SourceSnapshotId.1=snap-01000000000000001&SourceSnapshotId.2=snap-02000000000000002"
      "&SourceSnapshotId.3=snap-00000000000000000");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(count_of(reply.body, "<state>"), 1);
  EXPECT_THAT(reply.body, AllOf(HasSubstr("FastSnapshotRestoreLimitExceeded"),
                                HasSubstr("InvalidSnapshot.NotFound")));
}

}  // namespace
