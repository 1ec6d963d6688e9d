// See the header.
#include "tests/sim/query_parameters.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

namespace warmroot::sim {

namespace {

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
    "BlockDeviceMapping.N.Ebs.VolumeInitializationRate "
    "NetworkInterface.N.DeviceIndex NetworkInterface.N.SubnetId "
    "NetworkInterface.N.SecurityGroupId.N NetworkInterface.N.AssociatePublicIpAddress "
    "NetworkInterface.N.DeleteOnTermination NetworkInterface.N.Description "
    "TagSpecification.N.ResourceType TagSpecification.N.Tag.N.Key TagSpecification.N.Tag.N.Value "
    "InstanceMarketOptions.MarketType InstanceMarketOptions.SpotOptions.MaxPrice "
    "InstanceMarketOptions.SpotOptions.SpotInstanceType "
    "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior "
    "MetadataOptions.HttpTokens MetadataOptions.HttpPutResponseHopLimit "
    "MetadataOptions.HttpEndpoint MetadataOptions.HttpProtocolIpv6 "
    "MetadataOptions.InstanceMetadataTags LaunchTemplate.LaunchTemplateId "
    "LaunchTemplate.LaunchTemplateName LaunchTemplate.Version";

constexpr std::string_view kCreateTemplate =
    "LaunchTemplateName VersionDescription ClientToken TagSpecification.N.ResourceType "
    "TagSpecification.N.Tag.N.Key TagSpecification.N.Tag.N.Value";

constexpr std::string_view kCreateFleet =
    "Type ClientToken TagSpecification.N.ResourceType TagSpecification.N.Tag.N.Key "
    "TagSpecification.N.Tag.N.Value TargetCapacitySpecification.TotalTargetCapacity "
    "TargetCapacitySpecification.DefaultTargetCapacityType "
    "TargetCapacitySpecification.SpotTargetCapacity "
    "TargetCapacitySpecification.OnDemandTargetCapacity SpotOptions.AllocationStrategy "
    "SpotOptions.InstanceInterruptionBehavior OnDemandOptions.AllocationStrategy "
    "LaunchTemplateConfigs.N.LaunchTemplateSpecification.LaunchTemplateId "
    "LaunchTemplateConfigs.N.LaunchTemplateSpecification.LaunchTemplateName "
    "LaunchTemplateConfigs.N.LaunchTemplateSpecification.Version "
    "LaunchTemplateConfigs.N.Overrides.N.InstanceType LaunchTemplateConfigs.N.Overrides.N.MaxPrice "
    "LaunchTemplateConfigs.N.Overrides.N.SubnetId LaunchTemplateConfigs.N.Overrides.N.ImageId "
    "LaunchTemplateConfigs.N.Overrides.N.AvailabilityZone "
    "LaunchTemplateConfigs.N.Overrides.N.AvailabilityZoneId "
    "LaunchTemplateConfigs.N.Overrides.N.Priority";

constexpr std::string_view kRunInstancesUnmodelled =
    "Ipv6 KernelId RamdiskId SecurityGroup ElasticGpuSpecification ElasticInferenceAccelerator "
    "CpuOptions CapacityReservationSpecification HibernationOptions "
    "LicenseSpecification EnclaveOptions EnablePrimaryIpv6 NetworkPerformanceOptions Operator "
    "SecondaryInterface PrivateIpAddress AdditionalInfo NetworkInterface Placement "
    "InstanceMarketOptions.SpotOptions BlockDeviceMapping";

constexpr std::string_view kCreateVolume =
    "AvailabilityZone AvailabilityZoneId Encrypted Iops KmsKeyId Size SnapshotId VolumeType "
    "TagSpecification.N.ResourceType TagSpecification.N.Tag.N.Key TagSpecification.N.Tag.N.Value "
    "MultiAttachEnabled Throughput ClientToken VolumeInitializationRate";

// Buckets: EC2 developer guide, "Request throttling for the Amazon EC2 API".
constexpr bool kPlainBucket = true;
constexpr std::array kActions = std::to_array<ActionEntry>({
    {"RunInstances", run_instances_action, "MinCount MaxCount", kRunInstances,
     kRunInstancesUnmodelled, 5, 2, 1000, 2},
    {"DescribeInstances", describe_instances_action, "", "InstanceId.N IncludeManagedResources", "",
     100, 20, 0, 0, kPlainBucket},
    {"DescribeInstanceStatus", describe_instance_status_action, "",
     "InstanceId.N IncludeAllInstances IncludeManagedResources", "", 100, 20, 0, 0, kPlainBucket},
    {"TerminateInstances", terminate_instances_action, "InstanceId.1",
     "InstanceId.N Force SkipOsShutdown", "", 100, 5, 1000, 20},
    {"StopInstances", stop_instances_action, "InstanceId.1",
     "InstanceId.N Force SkipOsShutdown Hibernate", "", 50, 5, 1000, 20},
    {"StartInstances", start_instances_action, "InstanceId.1", "InstanceId.N", "AdditionalInfo", 5,
     2, 1000, 2},
    {"ModifyInstanceAttribute", modify_instance_attribute_action, "InstanceId",
     "InstanceId Attribute Value BlockDeviceMapping.N.DeviceName "
     "BlockDeviceMapping.N.Ebs.DeleteOnTermination BlockDeviceMapping.N.Ebs.VolumeId "
     "DisableApiTermination.Value DisableApiStop.Value UserData.Value InstanceType.Value "
     "InstanceInitiatedShutdownBehavior.Value SourceDestCheck.Value EbsOptimized.Value GroupId.N",
     "Kernel Ramdisk SriovNetSupport EnaSupport BlockDeviceMapping", 50, 5},
    {"CreateLaunchTemplate", create_template_action, "LaunchTemplateName", kCreateTemplate,
     "Operator", 50, 5},
    {"CreateLaunchTemplateVersion", create_template_version_action, "",
     "LaunchTemplateId LaunchTemplateName SourceVersion VersionDescription ClientToken",
     "ResolveAlias", 100, 5},
    {"DescribeLaunchTemplates", describe_templates_action, "",
     "LaunchTemplateId.N LaunchTemplateName.N IncludeManagedResources", "", 100, 20},
    {"DescribeLaunchTemplateVersions", describe_template_versions_action, "",
     "LaunchTemplateId LaunchTemplateName LaunchTemplateVersion.N IncludeManagedResources",
     "MinVersion MaxVersion ResolveAlias", 100, 20},
    {"DeleteLaunchTemplate", delete_template_action, "", "LaunchTemplateId LaunchTemplateName", "",
     50, 5},
    {"CreateFleet", create_fleet_action,
     "TargetCapacitySpecification.TotalTargetCapacity LaunchTemplateConfigs.1", kCreateFleet,
     "SpotOptions OnDemandOptions LaunchTemplateConfigs TargetCapacitySpecification Context "
     "ReservedCapacityOptions ExcessCapacityTerminationPolicy TerminateInstancesWithExpiration "
     "ValidFrom ValidUntil ReplaceUnhealthyInstances",
     50, 5},
    {"DescribeInstanceAttribute", describe_instance_attribute_action, "InstanceId Attribute",
     "InstanceId Attribute", "", 100, 20},
    {"CreateVolume", create_volume_action, "", kCreateVolume, "OutpostArn Operator", 100, 5},
    {"DescribeVolumes", describe_volumes_action, "", "VolumeId.N IncludeManagedResources", "", 100,
     20, 0, 0, kPlainBucket},
    {"AttachVolume", attach_volume_action, "VolumeId InstanceId Device",
     "VolumeId InstanceId Device", "EbsCardIndex", 50, 5},
    {"DetachVolume", detach_volume_action, "VolumeId", "VolumeId InstanceId Device Force", "", 50,
     5},
    {"DeleteVolume", delete_volume_action, "VolumeId", "VolumeId", "", 100, 5},
    {"DescribeSnapshots", describe_snapshots_action, "", "SnapshotId.N Owner.N RestorableBy.N", "",
     100, 20, 0, 0, kPlainBucket},
    {"CopyVolumes", copy_volumes_action, "SourceVolumeId",
     "SourceVolumeId Size VolumeType Iops Throughput MultiAttachEnabled ClientToken "
     "TagSpecification.N.ResourceType TagSpecification.N.Tag.N.Key TagSpecification.N.Tag.N.Value",
     "Encrypted KmsKeyId", 50, 5},
    {"DescribeVolumeStatus", describe_volume_status_action, "",
     "VolumeId.N IncludeManagedResources", "", 100, 20},
    {"CreateSnapshot", create_snapshot_action, "VolumeId",
     "VolumeId Description TagSpecification.N.ResourceType TagSpecification.N.Tag.N.Key "
     "TagSpecification.N.Tag.N.Value",
     "OutpostArn Location", 100, 5},
    {"DeleteSnapshot", delete_snapshot_action, "SnapshotId", "SnapshotId", "", 100, 5},
    {"EnableFastSnapshotRestores", enable_fast_restores_action, "SourceSnapshotId.1",
     "SourceSnapshotId.N AvailabilityZone.N AvailabilityZoneId.N", "", 50, 5},
    {"DisableFastSnapshotRestores", disable_fast_restores_action, "SourceSnapshotId.1",
     "SourceSnapshotId.N AvailabilityZone.N AvailabilityZoneId.N", "", 50, 5},
    {"DescribeFastSnapshotRestores", describe_fast_restores_action, "", "", "", 100, 20},
    {"DescribeInstanceTypes", describe_instance_types_action, "", "InstanceType.N", "", 100, 20},
    {"DescribeInstanceTypeOfferings", describe_type_offerings_action, "", "LocationType", "", 100,
     20},
    {"GetSpotPlacementScores", get_placement_scores_action, "TargetCapacity",
     "InstanceType.N TargetCapacity TargetCapacityUnitType SingleAvailabilityZone RegionName.N "
     "MaxResults NextToken",
     "InstanceRequirementsWithMetadata", 100, 20},
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
});

/// "Filter.3.Value.12" to "Filter.N.Value.N". A leading zero or sign is no index.
std::string pattern_of(std::string_view name) {
  std::string out;
  for (bool more = true; more;) {
    const auto dot = name.find('.');
    const auto part = name.substr(0, dot);
    const bool index = !part.empty() && part[0] != '0' &&
                       part.find_first_not_of("0123456789") == std::string_view::npos;
    if (!out.empty()) out += '.';
    out += index ? std::string_view("N") : part;
    more = dot != std::string_view::npos;
    if (more) name.remove_prefix(dot + 1);
  }
  return out;
}

std::vector<std::string> words(std::string_view text) {
  std::istringstream parts{std::string(text)};
  std::vector<std::string> out;
  for (std::string word; parts >> word;) out.push_back(word);
  return out;
}

/// An action's words, split once: a call's every parameter is looked up in them.
struct KnownWords {
  std::set<std::string> known;
  std::vector<std::string> unmodelled, required;
};

KnownWords split_words(const ActionEntry& action) {
  KnownWords out;
  const auto add = [&](std::string_view text) {
    for (auto& word : words(text)) out.known.insert(std::move(word));
  };
  add("Action Version DryRun");
  add(action.known);
  // These listings have no pages, or neither pages nor filters.
  const bool listing = action.name.starts_with("Describe");
  if (listing && action.name != "DescribeInstanceAttribute") {
    add("Filter.N.Name Filter.N.Value.N");
    if (action.name != "DescribeAvailabilityZones") add("MaxResults NextToken");
  }
  // A template's data are the parameters of a launch, but for those that say how many and where.
  if (action.name.starts_with("CreateLaunchTemplate"))
    for (const auto& word : words(kRunInstances))
      if (word != "MinCount" && word != "MaxCount" && word != "ClientToken" && word != "SubnetId" &&
          !word.starts_with("LaunchTemplate"))
        out.known.insert("LaunchTemplateData." + word);
  out.unmodelled = words(action.unmodelled);
  if (action.name.starts_with("CreateLaunchTemplate"))
    for (const auto& word : words(kRunInstancesUnmodelled))
      out.unmodelled.push_back("LaunchTemplateData." + word);
  out.required = words(action.required);
  return out;
}

const KnownWords& words_of(const ActionEntry& action) {
  static const std::vector<KnownWords> kAll = [] {
    std::vector<KnownWords> all;
    for (const auto& entry : kActions) all.push_back(split_words(entry));
    return all;
  }();
  return kAll[static_cast<std::size_t>(&action - kActions.data())];
}

}  // namespace

const ActionEntry* find_action(std::string_view name) {
  const auto* found = std::find_if(kActions.begin(), kActions.end(),
                                   [&](const ActionEntry& entry) { return entry.name == name; });
  return found == kActions.end() ? nullptr : found;
}

Answer<void> check_parameters(const ActionEntry& action, const Form& form) {
  const KnownWords& known = words_of(action);
  for (const auto& [name, value] : form.values()) {
    const std::string pattern = pattern_of(name);
    if (known.known.contains(pattern)) continue;
    for (const auto& prefix : known.unmodelled)
      if (pattern == prefix || pattern.starts_with(prefix + ".") ||
          (prefix == "Ipv6" && pattern.starts_with("Ipv6Address")))
        return refuse("UnsupportedOperation",
                      "The parameter " + name + " is not modelled by the simulated region");
    return refuse("UnknownParameter", "The parameter " + name + " is not recognized");
  }
  for (const auto& name : known.required) {
    const bool list = name.ends_with(".1");
    const std::string plain = name.substr(0, name.find(".1"));
    if (list ? form.elements(plain).empty() : form.text(name).empty())
      return refuse("MissingParameter", "The request must contain the parameter " + plain);
  }
  return {};
}

}  // namespace warmroot::sim
