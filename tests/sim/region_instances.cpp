// Instances of the simulated region: launching, running, shutting down, and what a machine that
// ends by itself means. Volumes are given back only when their instance is terminated, as on EC2.
#include <algorithm>
#include <cstdio>

#include "tests/sim/region.hpp"
#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

namespace {

/// AWS keeps the first four addresses of a subnet and its last.
constexpr std::uint32_t kFirstAddress = 4;

struct AddressRange {
  std::uint32_t base = 0;
  std::uint32_t size = 0;
};

AddressRange parse_cidr(const std::string& cidr) {
  unsigned a = 0, b = 0, c = 0, d = 0, bits = 24;
  if (std::sscanf(cidr.c_str(), "%u.%u.%u.%u/%u", &a, &b, &c, &d, &bits) != 5 || bits < 16 ||
      bits > 28)
    return {};
  return {a << 24 | b << 16 | c << 8 | d, 1U << (32 - bits)};
}

std::string address_text(std::uint32_t address) {
  return std::to_string(address >> 24) + "." + std::to_string(address >> 16 & 255) + "." +
         std::to_string(address >> 8 & 255) + "." + std::to_string(address & 255);
}

std::string dollars(int hundred_thousandths) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", hundred_thousandths / 1e5);
  return text;
}

bool named(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool alive(GuestState state) {
  return state != GuestState::terminated;
}

}  // namespace

int Region::spot_price(const std::string& type, const std::string& zone) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a: the same price in every run
  for (const char letter : type + "/" + zone)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  return 10'000 + static_cast<int>(hash % 100'000);
}

int Region::free_addresses(const std::string& subnet_id) const {
  const SubnetRecord* net = subnet(subnet_id);
  if (net == nullptr) return 0;
  int used = 0;
  for (const auto& [id, guest] : instances_)
    if (guest.subnet_id == subnet_id && alive(guest.state)) ++used;
  return static_cast<int>(parse_cidr(net->cidr).size) - static_cast<int>(kFirstAddress) - 1 - used;
}

std::string Region::free_address(const SubnetRecord& net) const {
  const AddressRange range = parse_cidr(net.cidr);
  std::set<std::string> used;
  for (const auto& [id, guest] : instances_)
    if (guest.subnet_id == net.id && alive(guest.state)) used.insert(guest.private_ip);
  for (std::uint32_t host = kFirstAddress; host + 1 < range.size; ++host)
    if (auto text = address_text(range.base + host); !used.contains(text)) return text;
  return {};
}

// ---- launching ----

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

Answer<int> Region::capacity_for(const RunInstancesArgs& args, const std::string& where) const {
  if (args.spot && !args.max_price.empty()) {
    const int price = spot_price(args.type, where);
    if (std::atof(args.max_price.c_str()) * 1e5 < price)
      return refuse("SpotMaxPriceTooLow",
                    "Your Spot request price of " + args.max_price +
                        " is lower than the minimum required Spot request fulfillment price of " +
                        dollars(price) + ".");
  }
  const auto pool = knobs.capacity.find({args.type, where});
  if (pool == knobs.capacity.end()) return args.max_count;
  const auto used = std::count_if(instances_.begin(), instances_.end(), [&](const auto& entry) {
    const InstanceRecord& guest = entry.second;
    return guest.type == args.type && guest.zone == where && alive(guest.state);
  });
  const int room = pool->second - static_cast<int>(used);
  if (room < args.min_count)
    return refuse("InsufficientInstanceCapacity",
                  args.spot
                      ? "There is no Spot capacity available that matches your request."
                      : "We currently do not have sufficient " + args.type +
                            " capacity in the Availability Zone you requested (" + where + ").",
                  500);
  return std::min(room, args.max_count);
}

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
  const auto count = capacity_for(args, (*net)->zone);
  if (!count) return tl::unexpected(count.error());
  if (free_addresses((*net)->id) < args.min_count)
    return refuse("InsufficientFreeAddressesInSubnet",
                  "There are not enough free addresses in subnet '" + (*net)->id +
                      "' to satisfy the requested number of instances.");
  const std::string reservation = new_id("r-");
  std::vector<InstanceRecord> made;
  for (int index = 0; index < std::min(*count, free_addresses((*net)->id) + index); ++index)
    made.push_back(make_instance(args, **net, reservation, index));
  if (!args.client_token.empty()) {
    Token token{args.fingerprint, {}, now_};
    for (const auto& guest : made) token.ids.push_back(guest.id);
    launch_tokens_[key] = std::move(token);
  }
  return made;
}

InstanceRecord Region::make_instance(const RunInstancesArgs& args, const SubnetRecord& net,
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
  guest.private_ip = free_address(net);
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
  guest.launch_time = now_;
  guest.launch_mapping = {{"ami", *device_label(source.root_device)}, {"root", source.root_device}};
  guest.used_devices = {*device_label(source.root_device)};
  guest.tags = args.instance_tags;

  VolumeRecord root;
  root.id = guest.root_volume_id = new_id("vol-");
  root.snapshot_id = source.snapshot_id;
  root.zone = net.zone;
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

  note("launch instance=" + guest.id + " type=" + guest.type + " zone=" + guest.zone);
  volumes_.emplace(root.id, std::move(root));
  instances_.emplace(guest.id, guest);
  at(now_, [this, id = guest.id] { power_on(id); });
  at(now_ + drawn(times_.pending), [this, id = guest.id] { set_running(id); });
  return guest;
}

void Region::power_on(const std::string& instance_id) {
  InstanceRecord& guest = instances_.at(instance_id);
  if (guest.state != GuestState::pending) return;
  if (open_imds) guest.imds_port = open_imds(instance_id);
  const auto started =
      hardware_.power_on({instance_id, guest.image_id, guest.imds_port, guest.root_volume_id});
  guest.powered = started.has_value();
  if (started) return;
  note("power on failed instance=" + instance_id + " reason=" + started.error().message());
  begin_shutdown(guest, "Server.InternalError", "Server.InternalError: Internal error on launch");
}

void Region::set_running(const std::string& instance_id) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end() || found->second.state != GuestState::pending) return;
  InstanceRecord& guest = found->second;
  guest.state = GuestState::running;
  guest.reason_code.clear();
  guest.reason_message.clear();
  for (auto& [id, disk] : volumes_)
    if (disk.root && disk.link && disk.link->instance_id == instance_id)
      disk.link->state = LinkState::attached;
  note("running instance=" + instance_id);
}

// ---- ending ----

Answer<std::vector<StateChange>> Region::terminate_instances(const std::vector<std::string>& ids) {
  std::vector<std::string> unknown;
  for (const auto& id : ids)
    if (!instances_.contains(id)) unknown.push_back(id);
  if (!unknown.empty()) return instance_not_found(unknown);
  std::vector<StateChange> changes;
  for (const auto& id : ids) {
    InstanceRecord& guest = instances_.at(id);
    const GuestState before = guest.state;
    begin_shutdown(guest, "Client.UserInitiatedShutdown",
                   "Client.UserInitiatedShutdown: User initiated shutdown");
    changes.push_back({id, before, guest.state});
  }
  return changes;
}

void Region::begin_shutdown(InstanceRecord& guest, const std::string& reason,
                            const std::string& message) {
  if (guest.state == GuestState::shutting_down || guest.state == GuestState::terminated) return;
  guest.state = GuestState::shutting_down;
  guest.reason_code = reason;
  guest.reason_message = message;
  guest.shutdown_time = now_;
  guest.shutdown_until = now_ + drawn(times_.shutting_down);
  note("shutting down instance=" + guest.id + " reason=" + reason);
  if (guest.powered) hardware_.shut_down(guest.id);
  const auto look = [this, id = guest.id] {
    if (const auto found = instances_.find(id); found != instances_.end())
      poll_shutdown(found->second);
  };
  at(guest.shutdown_until, look);
  at(now_ + std::max(times_.shutting_down, times_.shutting_down_max), look);
}

void Region::poll_shutdown(InstanceRecord& guest) {
  if (guest.state != GuestState::shutting_down && guest.state != GuestState::stopping) return;
  if (now_ < guest.shutdown_until) return;
  const bool off = !guest.powered || hardware_.machine_state(guest.id) == MachineState::off;
  const bool patience_over =
      now_ >= *guest.shutdown_time + std::max(times_.shutting_down, times_.shutting_down_max);
  if (!off && !patience_over) return;
  if (guest.powered) hardware_.power_off(guest.id, false);
  guest.powered = false;
  if (guest.state == GuestState::stopping) {
    guest.state = GuestState::stopped;
    note("stopped instance=" + guest.id);
    return;
  }
  finish_terminate(guest);
}

void Region::finish_terminate(InstanceRecord& guest) {
  guest.state = GuestState::terminated;
  guest.terminated_time = now_;
  guest.private_ip.clear();
  if (guest.imds_port != 0 && close_imds) close_imds(guest.id);
  guest.imds_port = 0;
  std::vector<std::string> doomed;
  for (auto& [id, disk] : volumes_) {
    if (!disk.link || disk.link->instance_id != guest.id) continue;
    if (disk.link->delete_on_termination)
      doomed.push_back(id);
    else
      release(disk);
  }
  for (const auto& id : doomed) erase_volume(id);
  note("terminated instance=" + guest.id);
  at(now_ + times_.terminated_visible, [this, id = guest.id] { instances_.erase(id); });
}

void Region::poll_machine(InstanceRecord& guest) {
  if (!guest.powered || hardware_.machine_state(guest.id) != MachineState::off) return;
  note("machine ended by itself instance=" + guest.id);
  hardware_.power_off(guest.id, false);
  guest.powered = false;
  if (guest.terminate_on_shutdown) {
    begin_shutdown(guest, "Client.InstanceInitiatedShutdown",
                   "Client.InstanceInitiatedShutdown: Instance initiated shutdown");
    return;
  }
  // A stopped instance keeps its attachments.
  guest.state = GuestState::stopping;
  guest.reason_code = "Client.InstanceInitiatedShutdown";
  guest.reason_message = "Client.InstanceInitiatedShutdown: Instance initiated shutdown";
  guest.shutdown_time = now_;
  guest.shutdown_until = now_ + drawn(times_.shutting_down);
}

}  // namespace warmroot::sim
