// An Ec2 that passes everything on; what stands between client and reconciler in a simulated run
// overrides what it changes.
#pragma once

#include <memory>
#include <utility>

#include "manager/aws/ec2.hpp"

namespace warmroot::fleet {

class ForwardingEc2 : public aws::Ec2 {
 public:
  explicit ForwardingEc2(aws::Ec2& inner) : inner_(inner) {}
  /// Keeps what it forwards to.
  explicit ForwardingEc2(std::unique_ptr<aws::Ec2> inner)
      : owned_(std::move(inner)), inner_(*owned_) {}

  Result<aws::Page<aws::Volume>> describe_volumes(const aws::DescribeRequest& r) override {
    return inner_.describe_volumes(r);
  }
  Result<aws::Page<aws::Instance>> describe_instances(const aws::DescribeRequest& r) override {
    return inner_.describe_instances(r);
  }
  Result<aws::Page<aws::InstanceStatus>> describe_instance_status(
      const aws::DescribeRequest& r) override {
    return inner_.describe_instance_status(r);
  }
  Result<aws::Page<aws::Snapshot>> describe_snapshots(const aws::DescribeRequest& r) override {
    return inner_.describe_snapshots(r);
  }
  Result<aws::Page<aws::Image>> describe_images(const aws::DescribeRequest& r) override {
    return inner_.describe_images(r);
  }
  Result<std::vector<aws::AvailabilityZone>> describe_availability_zones() override {
    return inner_.describe_availability_zones();
  }
  Result<aws::Page<aws::Subnet>> describe_subnets(const aws::DescribeRequest& r) override {
    return inner_.describe_subnets(r);
  }
  Result<aws::Page<aws::SpotPrice>> describe_spot_price_history(
      const aws::DescribeSpotPrices& r) override {
    return inner_.describe_spot_price_history(r);
  }
  Result<aws::Page<aws::InstanceTypeOffering>> describe_instance_type_offerings(
      const aws::DescribeRequest& r) override {
    return inner_.describe_instance_type_offerings(r);
  }
  Result<aws::Page<aws::InstanceType>> describe_instance_types(
      const aws::DescribeRequest& r) override {
    return inner_.describe_instance_types(r);
  }
  Result<aws::Page<aws::VolumeStatus>> describe_volume_status(
      const aws::DescribeRequest& r) override {
    return inner_.describe_volume_status(r);
  }
  Result<aws::Page<aws::FastSnapshotRestore>> describe_fast_snapshot_restores(
      const aws::DescribeRequest& r) override {
    return inner_.describe_fast_snapshot_restores(r);
  }
  Result<aws::Page<aws::LaunchTemplate>> describe_launch_templates(
      const aws::DescribeRequest& r) override {
    return inner_.describe_launch_templates(r);
  }
  Result<std::vector<aws::SpotPlacementScore>> get_spot_placement_scores(
      const aws::GetSpotPlacementScores& r) override {
    return inner_.get_spot_placement_scores(r);
  }
  void expect(const std::vector<std::string>& bodies) override { inner_.expect(bodies); }
  using aws::Ec2::dry_run;
  Ok dry_run(const aws::Mutation& mutation, int& allowance) override {
    return inner_.dry_run(mutation, allowance);
  }
  std::vector<Result<aws::MutationAnswer>> send(std::span<const aws::EncodedCall> calls) override {
    return inner_.send(calls);
  }

 private:
  std::unique_ptr<aws::Ec2> owned_;

 protected:
  aws::Ec2& inner_;
};

}  // namespace warmroot::fleet
