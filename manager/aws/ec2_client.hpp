// Ec2 over a Transport: encodes, posts, decodes; retries reads, never a mutation. Waiting and
// randomness are arguments, so that tests (and virtual time) need neither.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>

#include "bootstrap/base/units.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/transport.hpp"

namespace warmroot::aws {

/// Waits that long.
using Sleeper = std::function<void(Milliseconds)>;
/// A number in [0, 1).
using RandomSource = std::function<double()>;

/// Attempts in all. Source: our choice; the SDKs' standard mode makes 3, CSI's adaptive one 50.
/// With the delays below six attempts take 3.1 s at most, 1.6 s on average.
inline constexpr int kMaxAttempts = 6;
/// Attempts of a read whose answers do not come at all: each costs a whole timeout. Source: the
/// SDKs' standard mode.
inline constexpr int kMaxLostAnswers = 3;
/// Delays of the retries double from the base to the cap. Source of the cap: the SDKs' 20 s.
inline constexpr Milliseconds kBackoffBase{100};
inline constexpr Milliseconds kBackoffCap{20'000};

/// Full jitter: random * min(base * 2^(failures-1), cap). `failures` from 1, `random` in [0, 1).
Milliseconds full_jitter(int failures, double random);

/// One thread. Error contexts begin with the call and its resource ("AttachVolume vol-1 to i-2:
/// ...").
class Ec2Client : public Ec2 {
 public:
  /// `transport` has to outlive the client.
  Ec2Client(Transport& transport, Sleeper sleep, RandomSource random);

  Result<Page<Volume>> describe_volumes(const DescribeRequest& request) override;
  Result<Page<Instance>> describe_instances(const DescribeRequest& request) override;
  Result<Page<InstanceStatus>> describe_instance_status(const DescribeRequest& request) override;
  Result<Page<Snapshot>> describe_snapshots(const DescribeRequest& request) override;
  Result<Page<Image>> describe_images(const DescribeRequest& request) override;
  Result<std::vector<AvailabilityZone>> describe_availability_zones() override;
  Result<Page<Subnet>> describe_subnets(const DescribeRequest& request) override;
  Result<Page<SpotPrice>> describe_spot_price_history(const DescribeSpotPrices& request) override;
  Result<Page<InstanceTypeOffering>> describe_instance_type_offerings(
      const DescribeRequest& request) override;
  Result<Page<InstanceType>> describe_instance_types(const DescribeRequest& request) override;
  Result<Page<VolumeStatus>> describe_volume_status(const DescribeRequest& request) override;
  Result<Page<FastSnapshotRestore>> describe_fast_snapshot_restores(
      const DescribeRequest& request) override;
  Result<Page<LaunchTemplate>> describe_launch_templates(const DescribeRequest& request) override;
  Result<std::vector<SpotPlacementScore>> get_spot_placement_scores(
      const GetSpotPlacementScores& request) override;

  void expect(const std::vector<std::string>& bodies) override;

  using Ec2::dry_run;
  Ok dry_run(const Mutation& mutation, int& allowance) override;

  /// Everything is returned as it came, so that the ledger decides.
  std::vector<Result<MutationAnswer>> send(std::span<const EncodedCall> calls) override;

 private:
  /// Posts until `decode` makes something of a reply, asking again is no use, or nothing is left of
  /// `allowance`, of which each post takes one, an expected one as well.
  template <typename Decode>
  auto read(const std::string& body, Decode decode, int& allowance)
      -> decltype(decode(HttpReply{}));
  template <typename Decode>
  auto read(const std::string& body, Decode decode) -> decltype(decode(HttpReply{})) {
    int unlimited = std::numeric_limits<int>::max();
    return read(body, decode, unlimited);
  }

  Transport& transport_;
  Sleeper sleep_;
  RandomSource random_;
  std::map<std::string, Result<HttpReply>> expected_;  ///< answers that came early, by body
};

}  // namespace warmroot::aws
