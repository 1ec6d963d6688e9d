// See the header.
#include "tests/sim/query_parameters.hpp"

#include <algorithm>
#include <array>
#include <sstream>

namespace warmroot::sim {

namespace {

constexpr std::string_view kDescribe = "Filter.N.Name Filter.N.Value.N MaxResults NextToken ";

constexpr std::string_view kRunInstances =
    "ImageId InstanceType MinCount MaxCount KeyName SubnetId SecurityGroupId.N UserData "
    "ClientToken "
    "EbsOptimized IamInstanceProfile.Arn IamInstanceProfile.Name Placement.AvailabilityZone "
    "Placement.AvailabilityZoneId Placement.Tenancy Placement.GroupName "
    "InstanceInitiatedShutdownBehavior DisableApiTermination DisableApiStop Monitoring.Enabled "
    "CreditSpecification.CpuCredits MaintenanceOptions.AutoRecovery "
    "PrivateDnsNameOptions.HostnameType PrivateDnsNameOptions.EnableResourceNameDnsARecord "
    "PrivateDnsNameOptions.EnableResourceNameDnsAAAARecord "
    "BlockDeviceMapping.N.DeviceName BlockDeviceMapping.N.VirtualName "
    "BlockDeviceMapping.N.NoDevice "
    "BlockDeviceMapping.N.Ebs.DeleteOnTermination BlockDeviceMapping.N.Ebs.VolumeSize "
    "BlockDeviceMapping.N.Ebs.VolumeType BlockDeviceMapping.N.Ebs.Iops "
    "BlockDeviceMapping.N.Ebs.Throughput BlockDeviceMapping.N.Ebs.Encrypted "
    "BlockDeviceMapping.N.Ebs.SnapshotId BlockDeviceMapping.N.Ebs.KmsKeyId "
    "NetworkInterface.N.DeviceIndex NetworkInterface.N.SubnetId "
    "NetworkInterface.N.SecurityGroupId.N NetworkInterface.N.AssociatePublicIpAddress "
    "NetworkInterface.N.DeleteOnTermination NetworkInterface.N.Description "
    "TagSpecification.N.ResourceType TagSpecification.N.Tag.N.Key TagSpecification.N.Tag.N.Value "
    "InstanceMarketOptions.MarketType InstanceMarketOptions.SpotOptions.MaxPrice "
    "InstanceMarketOptions.SpotOptions.SpotInstanceType "
    "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior "
    "MetadataOptions.HttpTokens MetadataOptions.HttpPutResponseHopLimit "
    "MetadataOptions.HttpEndpoint MetadataOptions.HttpProtocolIpv6 "
    "MetadataOptions.InstanceMetadataTags";

constexpr std::string_view kRunInstancesUnmodelled =
    "Ipv6 KernelId RamdiskId SecurityGroup ElasticGpuSpecification ElasticInferenceAccelerator "
    "LaunchTemplate CpuOptions CapacityReservationSpecification HibernationOptions "
    "LicenseSpecification EnclaveOptions EnablePrimaryIpv6 NetworkPerformanceOptions Operator "
    "SecondaryInterface PrivateIpAddress AdditionalInfo NetworkInterface Placement "
    "InstanceMarketOptions.SpotOptions BlockDeviceMapping";

constexpr std::string_view kCreateVolume =
    "AvailabilityZone AvailabilityZoneId Encrypted Iops KmsKeyId Size SnapshotId VolumeType "
    "TagSpecification.N.ResourceType TagSpecification.N.Tag.N.Key TagSpecification.N.Tag.N.Value "
    "MultiAttachEnabled Throughput ClientToken VolumeInitializationRate";

// Buckets: EC2 developer guide, "Request throttling for the Amazon EC2 API".
constexpr std::array<ActionEntry, 17> kActions{{
    {"RunInstances", run_instances_action, "ImageId InstanceType MinCount MaxCount", kRunInstances,
     kRunInstancesUnmodelled, 5, 2},
    {"DescribeInstances", describe_instances_action, "", "InstanceId.N IncludeManagedResources", "",
     100, 20},
    {"DescribeInstanceStatus", describe_instance_status_action, "",
     "InstanceId.N IncludeAllInstances IncludeManagedResources", "", 100, 20},
    {"TerminateInstances", terminate_instances_action, "InstanceId.1",
     "InstanceId.N Force SkipOsShutdown", "", 100, 5},
    {"CreateVolume", create_volume_action, "", kCreateVolume, "OutpostArn Operator", 100, 5},
    {"DescribeVolumes", describe_volumes_action, "", "VolumeId.N IncludeManagedResources", "", 100,
     20},
    {"AttachVolume", attach_volume_action, "VolumeId InstanceId Device",
     "VolumeId InstanceId Device", "EbsCardIndex", 50, 5},
    {"DetachVolume", detach_volume_action, "VolumeId", "VolumeId InstanceId Device Force", "", 50,
     5},
    {"DeleteVolume", delete_volume_action, "VolumeId", "VolumeId", "", 100, 5},
    {"DescribeSnapshots", describe_snapshots_action, "", "SnapshotId.N Owner.N RestorableBy.N", "",
     100, 20},
    {"DescribeImages", describe_images_action, "",
     "ImageId.N Owner.N ExecutableBy.N IncludeDeprecated IncludeDisabled", "", 100, 20},
    {"DescribeAvailabilityZones", describe_zones_action, "",
     "ZoneName.N ZoneId.N AllAvailabilityZones", "", 100, 20},
    {"DescribeSubnets", describe_subnets_action, "", "SubnetId.N", "", 100, 20},
    {"CreateTags", create_tags_action, "ResourceId.1 Tag.1.Key",
     "ResourceId.N Tag.N.Key Tag.N.Value", "", 100, 10},
    {"DeleteTags", delete_tags_action, "ResourceId.1", "ResourceId.N Tag.N.Key Tag.N.Value", "",
     100, 10},
    {"DescribeTags", describe_tags_action, "", "", "", 100, 20},
    {"DescribeSpotPriceHistory", describe_spot_prices_action, "",
     "InstanceType.N ProductDescription.N StartTime EndTime AvailabilityZone AvailabilityZoneId",
     "", 100, 20},
}};

/// "Filter.3.Value.12" to "Filter.N.Value.N". A leading zero or sign is no index.
std::string pattern_of(const std::string& name) {
  std::string out;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '.');) {
    const bool index = !part.empty() && part[0] != '0' &&
                       part.find_first_not_of("0123456789") == std::string::npos;
    out += (out.empty() ? "" : ".") + (index ? std::string("N") : part);
  }
  return out;
}

std::vector<std::string> words(std::string_view text) {
  std::istringstream parts{std::string(text)};
  std::vector<std::string> out;
  for (std::string word; parts >> word;) out.push_back(word);
  return out;
}

bool has_word(std::string_view list, const std::string& word) {
  const auto all = words(list);
  return std::find(all.begin(), all.end(), word) != all.end();
}

}  // namespace

const ActionEntry* find_action(std::string_view name) {
  const auto* found = std::find_if(kActions.begin(), kActions.end(),
                                   [&](const ActionEntry& entry) { return entry.name == name; });
  return found == kActions.end() ? nullptr : found;
}

Answer<void> check_parameters(const ActionEntry& action, const Form& form) {
  const bool listing = action.name.starts_with("Describe");
  // DescribeAvailabilityZones is the one listing without pages.
  const bool paged = listing && action.name != "DescribeAvailabilityZones";
  for (const auto& [name, value] : form.values()) {
    const std::string pattern = pattern_of(name);
    if (pattern == "Action" || pattern == "Version" || pattern == "DryRun") continue;
    if (has_word(action.known, pattern)) continue;
    if (listing && has_word(kDescribe, pattern) && (paged || pattern.starts_with("Filter.")))
      continue;
    for (const auto& prefix : words(action.unmodelled))
      if (pattern == prefix || pattern.starts_with(prefix + ".") ||
          (prefix == "Ipv6" && pattern.starts_with("Ipv6Address")))
        return refuse("UnsupportedOperation",
                      "The parameter " + name + " is not modelled by the simulated region");
    return refuse("UnknownParameter", "The parameter " + name + " is not recognized");
  }
  for (const auto& name : words(action.required))
    if (form.text(name).empty())
      return refuse("MissingParameter",
                    "The request must contain the parameter " + name.substr(0, name.find(".1")));
  return {};
}

}  // namespace warmroot::sim
