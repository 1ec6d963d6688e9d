// Volumes and attachments of the simulated region: creating, attaching, detaching with "busy",
// deleting. The table of refusals follows reference figures of EC2's behaviour; each message is
// EC2's own text where it is known.
#include <algorithm>

#include "tests/sim/region.hpp"
#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

namespace {

ApiError bad_value(const std::string& value, const std::string& parameter, const std::string& why) {
  return {400, "InvalidParameterValue",
          "Value (" + value + ") for parameter " + parameter + " is invalid. " + why};
}

/// What EC2 shows as a volume's IOPS where none were asked for.
std::optional<int> default_iops(const std::string& type, int size_gib) {
  if (type == "gp3") return 3000;
  if (type == "gp2") return std::clamp(3 * size_gib, 100, 16000);
  return std::nullopt;
}

Answer<void> check_performance(const CreateVolumeArgs& args, const VolumeTypeLimits& limits,
                               int size_gib) {
  const std::string type(limits.name);
  if (type.starts_with("io") && !args.iops)
    return refuse("MissingParameter",
                  "The parameter iops must be specified for " + type + " volumes.");
  if (args.iops && limits.max_iops == 0)
    return refuse("InvalidParameterCombination",
                  "The parameter iops is not supported for " + type + " volumes.");
  if (args.throughput && limits.max_throughput == 0)
    return refuse("InvalidParameterCombination",
                  "The parameter throughput is not supported for " + type + " volumes.");
  if (args.iops) {
    if (*args.iops < limits.min_iops || *args.iops > limits.max_iops)
      return refuse("InvalidParameterValue",
                    "Volume iops of " + std::to_string(*args.iops) + " is out of range; must be " +
                        std::to_string(limits.min_iops) + " to " + std::to_string(limits.max_iops));
    // The ratio binds above the baseline only: a 1 GiB gp3 volume still has its 3,000.
    if (*args.iops > limits.min_iops && *args.iops > limits.iops_per_gib * size_gib)
      return refuse("InvalidParameterCombination",
                    "Iops to volume size ratio of " + std::to_string(*args.iops / size_gib) +
                        " is too high; maximum is " + std::to_string(limits.iops_per_gib));
  }
  if (args.throughput) {
    constexpr int kLeastThroughput = 125, kIopsPerMiB = 4;
    if (*args.throughput < kLeastThroughput || *args.throughput > limits.max_throughput)
      return tl::unexpected(bad_value(std::to_string(*args.throughput), "throughput",
                                      "Valid range is 125 to 2000 MiB/s."));
    if (*args.throughput * kIopsPerMiB > args.iops.value_or(3000))
      return refuse("InvalidParameterCombination",
                    "Throughput (MiBps) to iops ratio is too high; maximum is 0.250000 MiBps per "
                    "iops.");
  }
  return {};
}

}  // namespace

// ---- creating ----

Answer<void> Region::check_create(const CreateVolumeArgs& args,
                                  const SnapshotRecord* source) const {
  if (zone(args.zone) == nullptr)
    return refuse("InvalidZone.NotFound", "The zone '" + args.zone + "' does not exist.");
  if (!args.snapshot_id.empty() && (source == nullptr || !source->readable))
    return snapshot_not_found(args.snapshot_id);
  if (source != nullptr && snapshot_state(*source) != "completed")
    return refuse("IncorrectState", "Snapshot is in invalid state - " + snapshot_state(*source));
  const std::string type = args.type.empty() ? "gp2" : args.type;
  const VolumeTypeLimits* limits = volume_type_limits(type);
  if (limits == nullptr)
    return refuse("UnknownVolumeType",
                  "Unsupported volume type '" + type + "' for volume creation.");
  if (!args.size_gib && source == nullptr)
    return refuse("MissingParameter", "The request must contain the parameter size/snapshot");
  const int size = args.size_gib.value_or(source != nullptr ? source->size_gib : 0);
  if (source != nullptr && size < source->size_gib)
    return tl::unexpected(bad_value(std::to_string(size), "size",
                                    "Expected a value of at least the size of snapshot '" +
                                        source->id + "' (" + std::to_string(source->size_gib) +
                                        " GiB)."));
  if (size < limits->min_gib || size > limits->max_gib)
    return refuse("InvalidParameterValue",
                  "Volume of " + std::to_string(size) + "GiB is too " +
                      (size < limits->min_gib ? "small" : "large") + " for volume type " + type +
                      "; " + (size < limits->min_gib ? "minimum is " : "maximum is ") +
                      std::to_string(size < limits->min_gib ? limits->min_gib : limits->max_gib) +
                      "GiB.");
  if (!args.kms_key.empty() && !args.encrypted)
    return refuse("InvalidParameterDependency",
                  "The parameter KmsKeyId requires the parameter Encrypted to be set.");
  if (args.multi_attach && !type.starts_with("io"))
    return refuse("InvalidParameterCombination",
                  "The parameter multiAttachEnabled is not supported for " + type + " volumes.");
  if (args.initialization_rate) {
    if (source == nullptr)
      return refuse("InvalidParameterDependency",
                    "The parameter VolumeInitializationRate requires the parameter SnapshotId.");
    if (*args.initialization_rate < 100 || *args.initialization_rate > 300)
      return tl::unexpected(bad_value(std::to_string(*args.initialization_rate),
                                      "volumeInitializationRate", "Valid range is 100 to 300."));
    if (auto checked = check_rate_quota(*args.initialization_rate); !checked) return checked;
  }
  if (auto checked = check_performance(args, *limits, size); !checked) return checked;
  return check_tags(args.tags);
}

VolumeRecord Region::new_volume(const CreateVolumeArgs& args) {
  const SnapshotRecord* source = args.snapshot_id.empty() ? nullptr : snapshot(args.snapshot_id);
  VolumeRecord made;
  made.id = new_id("vol-");
  made.snapshot_id = args.snapshot_id;
  made.zone = args.zone;
  made.type = args.type.empty() ? "gp2" : args.type;
  made.size_gib = args.size_gib.value_or(source != nullptr ? source->size_gib : 0);
  made.iops = args.iops ? args.iops : default_iops(made.type, made.size_gib);
  if (made.type == "gp3") made.throughput = args.throughput.value_or(125);
  made.encrypted = args.encrypted;
  made.kms_key = args.kms_key;
  made.multi_attach = args.multi_attach;
  made.create_time = now_;
  made.tags = args.tags;
  made.number = ++last_number_;
  begin_initialising(made, args);
  return made;
}

Answer<std::optional<VolumeRecord>> Region::volume_of_token(const std::string& token,
                                                            const std::string& fingerprint) const {
  const auto known = volume_tokens_.find(token);
  if (token.empty() || known == volume_tokens_.end() ||
      now_ >= known->second.made + times_.token_life)
    return std::nullopt;
  const VolumeRecord* before = volume(known->second.ids.front());
  // A volume that failed or was deleted burns its token.
  if (known->second.fingerprint != fingerprint || before == nullptr) return token_mismatch();
  return *before;
}

VolumeRecord Region::keep_new_volume(VolumeRecord made, const CreateVolumeArgs& args) {
  doom(made);
  if (!args.client_token.empty())
    volume_tokens_[args.client_token] = Token{args.fingerprint, {made.id}, now_};
  at(now_ + drawn(times_.creating), [this, id = made.id] { finish_create(id); });
  note("create volume=" + made.id + " snapshot=" + made.snapshot_id + " zone=" + made.zone);
  volumes_.emplace(made.id, made);
  return made;
}

Answer<VolumeRecord> Region::create_volume(const CreateVolumeArgs& args) {
  // EC2 looks at the limit before the token: a replay can be refused although its volume exists.
  if (static_cast<int>(volumes_.size()) >= knobs.volume_limit)
    return refuse("VolumeLimitExceeded",
                  "You have exceeded your maximum gp2 storage limit for this region.");
  if (const auto before = volume_of_token(args.client_token, args.fingerprint); !before)
    return tl::unexpected(before.error());
  else if (*before)
    return **before;
  const SnapshotRecord* source = args.snapshot_id.empty() ? nullptr : snapshot(args.snapshot_id);
  if (auto checked = check_create(args, source); !checked) return tl::unexpected(checked.error());
  return keep_new_volume(new_volume(args), args);
}

void Region::finish_create(const std::string& volume_id) {
  const auto found = volumes_.find(volume_id);
  if (found == volumes_.end() || found->second.state != DiskState::creating) return;
  VolumeRecord& made = found->second;
  if (made.doomed) {
    note((made.vanishes ? "vanished volume=" : "error volume=") + made.id);
    made.state = DiskState::error;
    if (made.vanishes) volumes_.erase(found);
    return;
  }
  const auto size = static_cast<std::uint64_t>(made.size_gib) * kGiB;
  const auto disk = made.source_volume_id.empty()
                        ? hardware_.create_volume(made.id, made.snapshot_id, size)
                        : hardware_.copy_volume(made.id, made.source_volume_id, size);
  made.state = disk ? DiskState::available : DiskState::error;
  note(disk ? "available volume=" + made.id
            : "error volume=" + made.id + " reason=" + disk.error().message());
}

// ---- attaching ----

Answer<void> Region::check_attach(const VolumeRecord& disk, const InstanceRecord& guest,
                                  const std::string& device) const {
  const auto label = device_label(device);
  if (!label)
    return tl::unexpected(bad_value(device, "device", device + " is not a valid EBS device name."));
  if (disk.state == DiskState::in_use)
    return refuse("VolumeInUse", disk.id + " is already attached to an instance");
  if (disk.state != DiskState::available)
    return refuse("IncorrectState", disk.id + " is not 'available'.");
  if (guest.state != GuestState::running && guest.state != GuestState::stopped)
    return refuse("IncorrectState", "Instance '" + guest.id + "' is not 'running'.");
  if (key_revoked(disk))
    return refuse("CustomerKeyHasBeenRevoked",
                  "The customer key of volume '" + disk.id + "' has been revoked.");
  if (disk.zone != guest.zone)
    return refuse("InvalidVolume.ZoneMismatch",
                  "The volume '" + disk.id +
                      "' is not in the same availability zone as instance '" + guest.id + "'");
  int attached = 0;
  // A name that the image gave to an instance store disk is taken although no mapping lists it.
  bool taken = guest.image_devices.contains(*label) || knobs.ami_devices.contains(*label);
  for (const auto& id : guest.disks) {
    const VolumeRecord& other = volumes_.at(id);
    if (!other.root) ++attached;
    taken |= device_label(other.link->device) == label;
  }
  if (taken)
    return refuse("InvalidParameterValue", "Invalid value '" + device +
                                               "' for unixDevice. Attachment point " + device +
                                               " is already in use");
  if (attached >= knobs.attachment_limit)
    return refuse("AttachmentLimitExceeded",
                  "You may attach up to " + std::to_string(knobs.attachment_limit) +
                      " devices for this instance type. Please use a larger instance size to "
                      "attach more devices.");
  return {};
}

Answer<VolumeRecord> Region::attach_volume(const std::string& volume_id,
                                           const std::string& instance_id,
                                           const std::string& device) {
  const auto disk = volumes_.find(volume_id);
  if (disk == volumes_.end()) return volume_not_found({volume_id});
  const auto guest = instances_.find(instance_id);
  if (guest == instances_.end()) return instance_not_found({instance_id});
  if (auto checked = check_attach(disk->second, guest->second, device); !checked)
    return tl::unexpected(checked.error());
  Link link;
  link.instance_id = instance_id;
  link.device = device;
  link.attach_time = now_;
  link.generation = static_cast<unsigned>(++last_number_);
  disk->second.state = DiskState::in_use;
  disk->second.link = link;
  guest->second.disks.insert(volume_id);
  const bool name_was_used = !guest->second.used_devices.insert(*device_label(device)).second;
  const bool reused = knobs.reused_device_sticks && name_was_used;
  if (reused) count("reused_device_sticks");
  const bool sticks = strikes(knobs.stuck_attaches, "stuck_attaches") || reused;
  if (!sticks)
    at(now_ + drawn(times_.attaching),
       [this, volume_id, generation = link.generation] { finish_attach(volume_id, generation); });
  note("attaching volume=" + volume_id + " instance=" + instance_id + " device=" + device +
       (sticks ? " (will stick)" : ""));
  return disk->second;
}

void Region::finish_attach(const std::string& volume_id, unsigned generation) {
  const auto disk = volumes_.find(volume_id);
  if (disk == volumes_.end() || !disk->second.link) return;
  Link& link = *disk->second.link;
  if (link.generation != generation || link.state != LinkState::attaching) return;
  const InstanceRecord* guest = instance(link.instance_id);
  if (guest == nullptr) return;
  if (zone_impaired(guest->zone)) {
    at(now_ + kPlugRetry, [this, volume_id, generation] { finish_attach(volume_id, generation); });
    return;
  }
  if (guest->powered) {
    const auto plugged = hardware_.plug(link.instance_id, volume_id);
    if (!plugged) {
      note("plug failed volume=" + volume_id + " reason=" + plugged.error().message());
      at(now_ + kPlugRetry,
         [this, volume_id, generation] { finish_attach(volume_id, generation); });
      return;
    }
    link.plugged = true;
  }
  hardware_.volume_attached(volume_id);
  link.state = LinkState::attached;
  note("attached volume=" + volume_id + " instance=" + link.instance_id);
}

// ---- detaching ----

Answer<VolumeRecord> Region::detach_volume(const std::string& volume_id,
                                           const std::string& instance_id,
                                           const std::string& device, bool force) {
  const auto found = volumes_.find(volume_id);
  if (found == volumes_.end()) return volume_not_found({volume_id});
  VolumeRecord& disk = found->second;
  if (!instance_id.empty() && instance(instance_id) == nullptr)
    return instance_not_found({instance_id});
  if (!disk.link)
    return refuse("IncorrectState", "Volume '" + volume_id + "' is in the '" +
                                        std::string(to_string(disk.state)) + "' state.");
  Link& link = *disk.link;
  if ((!instance_id.empty() && instance_id != link.instance_id) ||
      (!device.empty() && device_label(device) != device_label(link.device)))
    return refuse("InvalidAttachment.NotFound",
                  "The attachment of volume '" + volume_id + "' " +
                      (instance_id.empty() ? "" : "to instance '" + instance_id + "' ") +
                      "does not exist.");
  const InstanceRecord& guest = instances_.at(link.instance_id);
  if (disk.root && guest.state != GuestState::stopped)
    return refuse("OperationNotPermitted", "Unable to detach root volume '" + volume_id +
                                               "' from instance '" + guest.id + "'");
  if (link.state == LinkState::attaching || link.state == LinkState::attached) {
    link.state = LinkState::detaching;
    note("detaching volume=" + volume_id + " instance=" + link.instance_id);
    at(now_ + drawn(times_.detaching),
       [this, volume_id, generation = link.generation] { try_detach(volume_id, generation); });
    if (guest.spot() && guest.state == GuestState::running &&
        strikes(knobs.reclaimed_while_detaching, "reclaimed_while_detaching"))
      at(now_ + times_.detaching / 2, [this, id = guest.id] { reclaim(id); });
  }
  VolumeRecord answer = disk;
  if (force) {
    // The disk goes away under the guest, as it does on EC2.
    if (link.plugged) (void)hardware_.unplug(link.instance_id, volume_id);
    link.plugged = false;
  }
  return answer;
}

void Region::try_detach(const std::string& volume_id, unsigned generation) {
  const auto found = volumes_.find(volume_id);
  if (found == volumes_.end() || !found->second.link) return;
  Link& link = *found->second.link;
  if (link.generation != generation) return;
  const InstanceRecord* guest = instance(link.instance_id);
  if (link.plugged && guest != nullptr && guest->powered) {
    if (hardware_.mounted(link.instance_id, volume_id)) {
      if (link.state != LinkState::busy) note("busy volume=" + volume_id);
      link.state = LinkState::busy;
      busy_.insert(volume_id);
      return;
    }
    if (const auto unplugged = hardware_.unplug(link.instance_id, volume_id); !unplugged) {
      note("unplug failed volume=" + volume_id + " reason=" + unplugged.error().message());
      link.state = LinkState::busy;  // asked again at the next look
      busy_.insert(volume_id);
      return;
    }
  }
  release(found->second);
}

void Region::unlink(VolumeRecord& disk) {
  if (const auto guest = instances_.find(disk.link->instance_id); guest != instances_.end())
    guest->second.disks.erase(disk.id);
  busy_.erase(disk.id);
  disk.link.reset();
}

void Region::release(VolumeRecord& disk) {
  note("available volume=" + disk.id + " instance=" + disk.link->instance_id);
  unlink(disk);
  disk.state = DiskState::available;
}

// ---- deleting ----

Answer<void> Region::delete_volume(const std::string& volume_id) {
  const auto found = volumes_.find(volume_id);
  if (found == volumes_.end() || found->second.state == DiskState::deleting)
    return volume_not_found({volume_id});
  VolumeRecord& disk = found->second;
  if (disk.link)
    return refuse("VolumeInUse",
                  "Volume " + volume_id + " is currently attached to " + disk.link->instance_id);
  if (disk.state == DiskState::creating)
    return refuse("IncorrectState", "Volume '" + volume_id + "' is in the 'creating' state.");
  disk.state = DiskState::deleting;
  note("deleting volume=" + volume_id);
  at(now_ + drawn(times_.deleting), [this, volume_id] { erase_volume(volume_id); });
  return {};
}

void Region::erase_volume(const std::string& volume_id) {
  const auto found = volumes_.find(volume_id);
  if (found == volumes_.end()) return;
  if (found->second.link) unlink(found->second);
  hardware_.delete_volume(volume_id);
  initialising_.erase(volume_id);
  volumes_.erase(found);
}

}  // namespace warmroot::sim
