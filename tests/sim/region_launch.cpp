// Launching in the simulated region: what a launch must satisfy, the volumes that it makes, and the
// way from pending to running.
#include <algorithm>
#include <cstdio>

#include "tests/sim/region.hpp"
#include "tests/sim/region_rules.hpp"
#include "tests/sim/region_types.hpp"

namespace warmroot::sim {

namespace {

std::string dollars(int hundred_thousandths) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", hundred_thousandths / 1e5);
  return text;
}

bool named(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

int Region::spot_price(const std::string& type, const std::string& where) const {
  if (const auto set = knobs.spot_prices.find({type, where}); set != knobs.spot_prices.end())
    return set->second;
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a: the same price in every run
  for (const char letter : type + "/" + where)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  // A quarter to three fifths of the on-demand price, as spot prices usually are.
  constexpr std::uint64_t kLeast = 250, kSpread = 350;
  return static_cast<int>(on_demand_price(type) * (kLeast + hash % kSpread) / 1000);
}

std::int64_t Region::on_demand_price(const std::string& type) {
  const auto facts = type_facts(type);
  return facts ? facts->price : 0;
}

Answer<const SubnetRecord*> Region::placement_of(const RunInstancesArgs& args) const {
  if (!args.zone.empty() && zone(args.zone) == nullptr)
    return refuse("InvalidParameterValue", "Invalid availability zone: [" + args.zone + "]");
  if (!args.subnet_id.empty()) {
    const SubnetRecord* net = subnet(args.subnet_id);
    if (net == nullptr)
      return refuse("InvalidSubnetID.NotFound",
                    "The subnet ID '" + args.subnet_id + "' does not exist");
    if (!args.zone.empty() && args.zone != net->zone)
      return refuse("InvalidParameterValue", "The availability zone '" + args.zone +
                                                 "' does not match the subnet's '" + net->zone +
                                                 "'");
    return net;
  }
  for (const auto& net : catalog_.subnets)
    if (args.zone.empty() || net.zone == args.zone) return &net;
  return refuse("MissingInput", "No subnets found for the default VPC. Please specify a subnet.");
}

Answer<void> Region::check_run(const RunInstancesArgs& args) const {
  const ImageRecord* source = image(args.image_id);
  if (source == nullptr) return image_not_found(args.image_id);
  const std::string architecture = architecture_of(args.type);
  if (architecture.empty())
    return refuse("InvalidParameterValue", "Invalid value '" + args.type + "' for InstanceType.");
  if (architecture != source->architecture)
    return refuse("InvalidParameterValue",
                  "The architecture '" + architecture +
                      "' of the specified instance type does not match the architecture '" +
                      source->architecture +
                      "' of the specified AMI. Specify an instance type and an AMI that have "
                      "matching architectures, and try again.");
  if (!args.key_name.empty() &&
      std::none_of(catalog_.key_pairs.begin(), catalog_.key_pairs.end(),
                   [&](const KeyPair& pair) { return pair.name == args.key_name; }))
    return refuse("InvalidKeyPair.NotFound", "The key pair '" + args.key_name + "' does not exist");
  for (const auto& group : args.security_groups)
    if (!named(catalog_.security_groups, group))
      return refuse("InvalidGroup.NotFound", "The security group '" + group + "' does not exist");
  if (!args.instance_profile.empty() && !named(catalog_.instance_profiles, args.instance_profile))
    return refuse("InvalidParameterValue",
                  "Value (" + args.instance_profile +
                      ") for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance "
                      "Profile name");
  constexpr std::size_t kMaxUserData = 16384;
  if (args.user_data.size() > kMaxUserData)
    return refuse("InvalidUserData.Malformed", "User data is limited to 16384 bytes");
  const SnapshotRecord* disk = snapshot(source->snapshot_id);
  if (args.root_size_gib && disk != nullptr && *args.root_size_gib < disk->size_gib)
    return refuse("InvalidBlockDeviceMapping",
                  "Volume of size " + std::to_string(*args.root_size_gib) +
                      "GB is smaller than  snapshot '" + disk->id +
                      "', expect size >= " + std::to_string(disk->size_gib) + "GB");
  for (const Tags* tags : {&args.instance_tags, &args.volume_tags})
    if (auto checked = check_tags(*tags); !checked) return checked;
  return args.metadata_tags ? check_metadata_tags(args.instance_tags) : Answer<void>{};
}

Answer<void> Region::check_price(const std::string& type, const std::string& where,
                                 const std::string& max_price) const {
  const int price = spot_price(type, where);
  // Without a price of one's own the on-demand price is the cap.
  const double most = max_price.empty() ? static_cast<double>(on_demand_price(type))
                                        : std::atof(max_price.c_str()) * 1e5;
  if (most >= price) return {};
  return refuse("SpotMaxPriceTooLow",
                "Your Spot request price of " +
                    (max_price.empty() ? dollars(static_cast<int>(most)) : max_price) +
                    " is lower than the minimum required Spot request fulfillment price of " +
                    dollars(price) + ".");
}

Answer<void> Region::check_offered(const std::string& type, const std::string& where) const {
  if (offered(type, where)) return {};
  std::string others;
  for (const auto& other : catalog_.zones)
    if (offered(type, other.name)) others += (others.empty() ? "" : ", ") + other.name;
  return refuse("Unsupported",
                "Your requested instance type (" + type +
                    ") is not supported in your requested Availability Zone (" + where +
                    "). Please retry your request by not specifying an Availability Zone or "
                    "choosing " +
                    others + ".");
}

Answer<void> Region::check_launch(const RunInstancesArgs& args) const {
  if (const auto net = placement_of(args); !net) return tl::unexpected(net.error());
  return check_run(args);
}

Answer<int> Region::capacity_for(const RunInstancesArgs& args, const std::string& where) const {
  if (auto checked = check_offered(args.type, where); !checked)
    return tl::unexpected(checked.error());
  const auto quota = vcpu_room(args.type, args.spot);
  if (!quota) return quota;
  if (*quota < args.min_count)
    return args.spot ? refuse("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
                     : refuse("VcpuLimitExceeded",
                              "You have requested more vCPU capacity than "
                              "your current vCPU limit allows.");
  if (args.spot)
    if (auto checked = check_price(args.type, where, args.max_price); !checked)
      return tl::unexpected(checked.error());
  const int left = std::min(*quota, room(args.type, where));
  if (left < args.min_count)
    return refuse("InsufficientInstanceCapacity",
                  args.spot
                      ? "There is no Spot capacity available that matches your request."
                      : "We currently do not have sufficient " + args.type +
                            " capacity in the Availability Zone you requested (" + where + ").",
                  500);
  return std::min(left, args.max_count);
}

// ---- volumes of a launch ----

Answer<std::vector<LaunchDisk>> Region::launch_disks(const RunInstancesArgs& args,
                                                     const std::string& where) const {
  const ImageRecord& source = *image(args.image_id);
  std::map<std::string, LaunchDisk> disks;  // by label: a request overrides the image's own
  for (const auto& own : source.extra) {
    LaunchDisk disk;
    disk.device = own.device;
    disk.virtual_name = own.virtual_name;
    disk.volume.snapshot_id = own.snapshot_id;
    if (own.size_gib > 0) disk.volume.size_gib = own.size_gib;
    disk.delete_on_termination = own.delete_on_termination;
    disk.of_image = true;
    disks[device_label(own.device).value_or(own.device)] = std::move(disk);
  }
  std::set<std::string> named_twice;
  for (const auto& wanted : args.disks) {
    const auto label = device_label(wanted.device);
    if (!label) return refuse("InvalidBlockDeviceMapping", "Invalid device name " + wanted.device);
    if (!named_twice.insert(*label).second || *label == *device_label(source.root_device))
      return refuse(
          "InvalidBlockDeviceMapping",
          "The device '" + wanted.device + "' is used in more than one block-device mapping");
    if (wanted.none) {
      disks.erase(*label);
      continue;
    }
    LaunchDisk& disk = disks[*label];
    const LaunchDisk own = disk;
    disk = wanted;
    if (disk.volume.snapshot_id.empty() && !disk.volume.size_gib) {
      disk.volume.snapshot_id = own.volume.snapshot_id;
      disk.volume.size_gib = own.volume.size_gib;
      disk.of_image = own.of_image;
    }
    if (!disk.delete_on_termination) disk.delete_on_termination = own.delete_on_termination;
  }
  std::vector<LaunchDisk> out;
  for (auto& [label, disk] : disks) {
    disk.volume.zone = where;
    if (auto checked = check_launch_disk(disk); !checked) return tl::unexpected(checked.error());
    out.push_back(std::move(disk));
  }
  if (static_cast<int>(out.size()) > knobs.attachment_limit)
    return refuse("AttachmentLimitExceeded",
                  "You may attach up to " + std::to_string(knobs.attachment_limit) +
                      " devices for this instance type. Please use a larger instance size to "
                      "attach more devices.");
  return out;
}

Answer<void> Region::check_launch_disk(const LaunchDisk& disk) const {
  if (!disk.virtual_name.empty()) return {};
  const SnapshotRecord* source =
      disk.volume.snapshot_id.empty() ? nullptr : snapshot(disk.volume.snapshot_id);
  // The launch may read what its image holds, even where CreateVolume may not.
  if (!disk.volume.snapshot_id.empty() &&
      (source == nullptr || (!source->readable && !disk.of_image)))
    return snapshot_not_found(disk.volume.snapshot_id);
  if (source == nullptr && !disk.volume.size_gib)
    return refuse("InvalidBlockDeviceMapping",
                  "The device '" + disk.device + "' needs a snapshot or a size");
  if (source != nullptr && disk.volume.size_gib && *disk.volume.size_gib < source->size_gib)
    return refuse("InvalidBlockDeviceMapping",
                  "Volume of size " + std::to_string(*disk.volume.size_gib) +
                      "GB is smaller than  snapshot '" + source->id +
                      "', expect size >= " + std::to_string(source->size_gib) + "GB");
  if (disk.of_image) return {};
  return check_create(disk.volume, source);
}

void Region::make_launch_disk(InstanceRecord& guest, const LaunchDisk& wanted, const Tags& tags) {
  if (!wanted.virtual_name.empty()) {
    guest.launch_mapping[wanted.virtual_name] = *device_label(wanted.device);
    guest.used_devices.insert(*device_label(wanted.device));
    guest.image_devices.insert(*device_label(wanted.device));
    return;
  }
  VolumeRecord disk = new_volume(wanted.volume);
  disk.state = DiskState::in_use;
  disk.tags = tags;
  disk.of_launch = true;
  Link link;
  link.instance_id = guest.id;
  link.device = wanted.device;
  link.attach_time = now_;
  link.delete_on_termination =
      wanted.delete_on_termination.value_or(knobs.launch_disks_die_with_instance);
  link.generation = static_cast<unsigned>(++last_number_);
  int number = 1;
  while (guest.launch_mapping.contains("ebs" + std::to_string(number))) ++number;
  guest.launch_mapping["ebs" + std::to_string(number)] = *device_label(wanted.device);
  guest.used_devices.insert(*device_label(wanted.device));
  guest.disks.insert(disk.id);
  disk.link = std::move(link);
  note("launch volume=" + disk.id + " instance=" + guest.id + " device=" + wanted.device);
  volumes_.emplace(disk.id, std::move(disk));
}

bool Region::make_disks_ready(InstanceRecord& guest) {
  if (static_cast<int>(volumes_.size()) > knobs.volume_limit) {
    begin_shutdown(guest, "Client.VolumeLimitExceeded",
                   "Client.VolumeLimitExceeded: Volume limit exceeded");
  } else {
    for (const auto& id : guest.disks) {
      VolumeRecord& disk = volumes_.at(id);
      if (!disk.of_launch || disk.made) continue;
      const auto size = static_cast<std::uint64_t>(disk.size_gib) * kGiB;
      disk.made = hardware_.create_volume(id, disk.snapshot_id, size).has_value();
      if (!disk.made)
        begin_shutdown(guest, "Client.InternalError",
                       "Client.InternalError: Client error on launch");
    }
  }
  if (guest.state == GuestState::pending) return true;
  // What a failed launch has made goes with it, whatever was asked for.
  for (const auto& id : guest.disks) volumes_.at(id).link->delete_on_termination = true;
  return false;
}

// ---- the call ----

Answer<std::vector<InstanceRecord>> Region::run_instances(const RunInstancesArgs& args) {
  const auto net = placement_of(args);
  if (!net) return tl::unexpected(net.error());
  // A request that names a zone or subnet is idempotent within that zone, any other in the region.
  const bool zonal = !args.zone.empty() || !args.subnet_id.empty();
  const std::pair key(args.client_token, zonal ? (*net)->zone : std::string());
  if (!args.client_token.empty()) {
    const auto known = launch_tokens_.find(key);
    if (known != launch_tokens_.end() && now_ < known->second.made + times_.token_life) {
      if (known->second.fingerprint != args.fingerprint) return token_mismatch();
      std::vector<InstanceRecord> before;
      for (const auto& id : known->second.ids) {
        const InstanceRecord* guest = instance(id);
        if (guest == nullptr || guest->state == GuestState::terminated)
          return refuse("IdempotentInstanceTerminated",
                        "The client token '" + args.client_token +
                            "' was used to launch an instance that has been terminated.");
        before.push_back(*guest);
      }
      return before;
    }
  }
  if (auto checked = check_run(args); !checked) return tl::unexpected(checked.error());
  const auto disks = launch_disks(args, (*net)->zone);
  if (!disks) return tl::unexpected(disks.error());
  const auto count = capacity_for(args, (*net)->zone);
  if (!count) return tl::unexpected(count.error());
  if (free_addresses((*net)->id) < args.min_count)
    return refuse("InsufficientFreeAddressesInSubnet",
                  "There are not enough free addresses in subnet '" + (*net)->id +
                      "' to satisfy the requested number of instances.");
  const std::string reservation = new_id("r-");
  std::vector<InstanceRecord> made;
  const int most = std::min(*count, free_addresses((*net)->id));
  for (int index = 0; index < most; ++index)
    made.push_back(make_instance(args, **net, *disks, reservation, index));
  if (!args.client_token.empty()) {
    Token token{args.fingerprint, {}, now_};
    for (const auto& guest : made) token.ids.push_back(guest.id);
    launch_tokens_[key] = std::move(token);
  }
  return made;
}

InstanceRecord Region::make_instance(const RunInstancesArgs& args, const SubnetRecord& net,
                                     const std::vector<LaunchDisk>& disks,
                                     const std::string& reservation, int index) {
  const ImageRecord& source = *image(args.image_id);
  InstanceRecord guest;
  guest.id = new_id("i-");
  guest.reservation_id = reservation;
  if (args.spot) guest.spot_request_id = "sir-" + new_id("").substr(9);
  guest.image_id = args.image_id;
  guest.type = args.type;
  guest.architecture = source.architecture;
  guest.zone = net.zone;
  guest.subnet_id = net.id;
  guest.vpc_id = net.vpc_id;
  guest.private_ip = take_address(net);
  guest.number = ++last_number_;
  char mac[24];
  std::snprintf(
      mac, sizeof mac, "0e:00:00:%02x:%02x:%02x", static_cast<unsigned>(guest.number >> 16 & 255),
      static_cast<unsigned>(guest.number >> 8 & 255), static_cast<unsigned>(guest.number & 255));
  guest.mac = mac;
  guest.key_name = args.key_name;
  guest.instance_profile = args.instance_profile;
  guest.security_groups = args.security_groups;
  if (guest.security_groups.empty() && !catalog_.security_groups.empty())
    guest.security_groups = {catalog_.security_groups.front()};
  guest.user_data = args.user_data;
  guest.client_token = args.client_token;
  guest.max_price = args.max_price;
  guest.root_device = source.root_device;
  guest.metadata_tags = args.metadata_tags;
  guest.monitored = args.monitored;
  guest.terminate_on_shutdown = args.terminate_on_shutdown || args.spot;
  guest.ebs_optimized = args.ebs_optimized;
  guest.launch_index = index;
  guest.reason_code = guest.reason_message = "pending";
  guest.launch_time = guest.start_time = now_;
  guest.api_termination_disabled = args.api_termination_disabled;
  guest.api_stop_disabled = args.api_stop_disabled;
  guest.launch_mapping = {{"ami", *device_label(source.root_device)}, {"root", source.root_device}};
  guest.used_devices = {*device_label(source.root_device)};
  guest.tags = args.instance_tags;
  doom(guest);

  occupy(guest, true);
  make_root(guest, args, source);
  for (const auto& disk : disks) make_launch_disk(guest, disk, args.volume_tags);
  note("launch instance=" + guest.id + " type=" + guest.type + " zone=" + guest.zone);
  instances_.emplace(guest.id, guest);
  awake_.insert(guest.id);
  tell(InstanceEvent::Kind::state_change, guest);
  schedule_boot(guest);
  return guest;
}

void Region::make_root(InstanceRecord& guest, const RunInstancesArgs& args,
                       const ImageRecord& source) {
  VolumeRecord root;
  root.id = guest.root_volume_id = new_id("vol-");
  root.snapshot_id = source.snapshot_id;
  root.zone = guest.zone;
  root.type = "gp3";
  const SnapshotRecord* disk = snapshot(source.snapshot_id);
  root.size_gib = args.root_size_gib.value_or(disk != nullptr ? disk->size_gib : 8);
  root.iops = 3000;
  root.throughput = 125;
  root.state = DiskState::in_use;
  root.create_time = now_;
  root.root = true;
  root.number = ++last_number_;
  root.tags = args.volume_tags;  // EC2 tags every volume of the launch, the root included
  Link link;
  link.instance_id = guest.id;
  link.device = source.root_device;
  link.attach_time = now_;
  link.delete_on_termination = args.root_delete_on_termination;
  root.link = link;
  guest.disks.insert(root.id);
  volumes_.emplace(root.id, std::move(root));
}

void Region::schedule_boot(const InstanceRecord& guest) {
  const Instant start = guest.start_time;
  at(now_, [this, id = guest.id] { power_on(id); });
  at(now_ + drawn(times_.pending), [this, id = guest.id, start] {
    // A stop and a start in between make this the wrong one.
    const InstanceRecord* still = instance(id);
    if (still != nullptr && still->start_time == start) set_running(id);
  });
}

void Region::power_on(const std::string& instance_id) {
  InstanceRecord& guest = instances_.at(instance_id);
  if (guest.state != GuestState::pending || guest.powered || !make_disks_ready(guest)) return;
  if (open_imds && guest.imds_port == 0) guest.imds_port = open_imds(instance_id);
  const auto started =
      hardware_.power_on({instance_id, guest.image_id, guest.imds_port, guest.root_volume_id,
                          guest.private_ip, guest.mac});
  guest.powered = started.has_value();
  if (started) return plug_disks(instance_id);
  note("power on failed instance=" + instance_id + " reason=" + started.error().message());
  begin_shutdown(guest, "Server.InternalError", "Server.InternalError: Internal error on launch");
}

void Region::plug_disks(const std::string& instance_id) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end() || !found->second.powered) return;
  bool missing = false;
  for (const auto& id : found->second.disks) {
    VolumeRecord& disk = volumes_.at(id);
    const bool of_boot = disk.of_launch || disk.link->state != LinkState::attaching;
    if (disk.root || disk.link->plugged || !of_boot) continue;
    disk.link->plugged = hardware_.plug(instance_id, id).has_value();
    if (disk.link->plugged) hardware_.volume_attached(id);
    missing |= !disk.link->plugged;
  }
  if (missing) at(now_ + kPlugRetry, [this, instance_id] { plug_disks(instance_id); });
}

void Region::set_running(const std::string& instance_id) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end() || found->second.state != GuestState::pending) return;
  InstanceRecord& guest = found->second;
  if (guest.never_runs) return;
  if (!guest.launch_failure.empty()) return fail_launch(guest);
  set_state(guest, GuestState::running);
  guest.reason_code.clear();
  guest.reason_message.clear();
  for (const auto& id : guest.disks) {
    VolumeRecord& disk = volumes_.at(id);
    if ((disk.root || disk.of_launch) && disk.link->state == LinkState::attaching)
      disk.link->state = LinkState::attached;
  }
  note("running instance=" + instance_id);
}

}  // namespace warmroot::sim
