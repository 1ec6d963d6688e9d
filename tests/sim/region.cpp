// Time, tags and what an operator does to the simulated region. Volumes and instances have files of
// their own (region_volumes.cpp, region_instances.cpp).
#include "tests/sim/region.hpp"

#include <algorithm>

#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

std::string_view to_string(DiskState state) {
  switch (state) {
    case DiskState::creating:
      return "creating";
    case DiskState::available:
      return "available";
    case DiskState::in_use:
      return "in-use";
    case DiskState::deleting:
      return "deleting";
    case DiskState::error:
      return "error";
  }
  return "error";
}

std::string_view to_string(LinkState state) {
  switch (state) {
    case LinkState::attaching:
      return "attaching";
    case LinkState::attached:
      return "attached";
    case LinkState::detaching:
      return "detaching";
    case LinkState::busy:
      return "busy";
  }
  return "busy";
}

std::string_view to_string(GuestState state) {
  switch (state) {
    case GuestState::pending:
      return "pending";
    case GuestState::running:
      return "running";
    case GuestState::shutting_down:
      return "shutting-down";
    case GuestState::terminated:
      return "terminated";
    case GuestState::stopping:
      return "stopping";
    case GuestState::stopped:
      return "stopped";
  }
  return "terminated";
}

int state_code(GuestState state) {
  switch (state) {
    case GuestState::pending:
      return 0;
    case GuestState::running:
      return 16;
    case GuestState::shutting_down:
      return 32;
    case GuestState::terminated:
      return 48;
    case GuestState::stopping:
      return 64;
    case GuestState::stopped:
      return 80;
  }
  return 48;
}

Region::Region(Catalog catalog, RegionTimes times, Hardware& hardware, Instant start,
               std::uint64_t seed)
    : catalog_(std::move(catalog)),
      times_(times),
      hardware_(hardware),
      now_(start),
      last_busy_poll_(start),
      last_machine_poll_(start),
      random_(seed) {}

void Region::advance(Instant to) {
  while (!events_.empty() && events_.begin()->first <= to) {
    auto event = events_.extract(events_.begin());
    move_time(event.key());
    changed();
    event.mapped()();
  }
  move_time(to);
  poll();
}

void Region::poll() {
  // Asking a real guest takes its time, and happens with the region locked.
  if (now_ >= last_busy_poll_ + times_.busy_poll) {
    last_busy_poll_ = now_;
    const std::set<std::string> busy = busy_;
    for (const auto& id : busy)
      if (const auto found = volumes_.find(id); found != volumes_.end() && found->second.link)
        try_detach(id, found->second.link->generation);
  }
  const bool ask_machines = now_ >= last_machine_poll_ + times_.machine_poll;
  if (ask_machines) last_machine_poll_ = now_;
  const auto& looked_at = ask_machines ? awake_ : ending_;
  for (auto at = looked_at.begin(); at != looked_at.end();) {
    InstanceRecord& guest = instances_.at(*at++);  // looking can end it
    if (guest.state == GuestState::shutting_down || guest.state == GuestState::stopping)
      poll_shutdown(guest);
    else if (ask_machines && guest.state == GuestState::running)
      poll_machine(guest);
  }
}

Milliseconds Region::drawn(Milliseconds time) {
  if (times_.jitter <= 0) return time;
  // Not std::uniform_real_distribution: its values may differ between standard libraries.
  const double unit = static_cast<double>(random_() >> 11) * 0x1p-53;
  const double factor = 1 + times_.jitter * (2 * unit - 1);
  return Milliseconds(static_cast<std::int64_t>(static_cast<double>(time.count()) * factor));
}

std::string Region::new_id(const std::string& prefix) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string id = prefix + "0";
  std::uint64_t bits = random_();
  for (int digit = 0; digit < 16; ++digit, bits >>= 4) id += kDigits[bits & 15];
  return id;
}

// ---- looking ----

namespace {
template <typename Map>
auto* find_in(const Map& map, const std::string& id) {
  const auto found = map.find(id);
  return found == map.end() ? nullptr : &found->second;
}

template <typename T>
const T* find_named(const std::vector<T>& list, const std::string& name, std::string T::*member) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const T& item) { return item.*member == name; });
  return found == list.end() ? nullptr : &*found;
}
}  // namespace

const VolumeRecord* Region::volume(const std::string& id) const {
  return find_in(volumes(), id);
}
const InstanceRecord* Region::instance(const std::string& id) const {
  return find_in(instances(), id);
}
const SnapshotRecord* Region::snapshot(const std::string& id) const {
  return find_named(catalog().snapshots, id, &SnapshotRecord::id);
}
const ImageRecord* Region::image(const std::string& id) const {
  return find_named(catalog().images, id, &ImageRecord::id);
}
const SubnetRecord* Region::subnet(const std::string& id) const {
  return find_named(catalog().subnets, id, &SubnetRecord::id);
}
const Zone* Region::zone(const std::string& name) const {
  return find_named(catalog_.zones, name, &Zone::name);
}

// ---- tags ----

Tags* Region::tags_of(const std::string& resource) {
  if (const auto found = volumes_.find(resource); found != volumes_.end())
    return &found->second.tags;
  if (const auto found = instances_.find(resource); found != instances_.end())
    return &found->second.tags;
  if (const auto found = templates_.find(resource); found != templates_.end())
    return &found->second.tags;
  if (const auto found = fleets_.find(resource); found != fleets_.end()) return &found->second.tags;
  for (auto& snapshot : catalog_.snapshots)
    if (snapshot.id == resource) return &snapshot.tags;
  for (auto& image : catalog_.images)
    if (image.id == resource) return &image.tags;
  return nullptr;
}

Answer<void> Region::create_tags(const std::vector<std::string>& resources, const Tags& tags) {
  // EC2 tags all resources of a call or none.
  for (const auto& id : resources) {
    const Tags* present = tags_of(id);
    if (present == nullptr) return unknown_resource(id);
    Tags merged = tags;
    // EC2's own tags do not count.
    for (const auto& tag : *present)
      if (!tag.first.starts_with("aws:")) merged.insert(tag);
    if (auto checked = check_tags(merged); !checked) return checked;
    const auto* guest = instance(id);
    if (guest != nullptr && guest->metadata_tags)
      if (auto checked = check_metadata_tags(tags); !checked) return checked;
  }
  for (const auto& id : resources)
    for (const auto& [key, value] : tags) (*tags_of(id))[key] = value;
  return {};
}

Answer<void> Region::delete_tags(const std::vector<std::string>& resources,
                                 const std::map<std::string, std::optional<std::string>>& keys) {
  for (const auto& id : resources)
    if (tags_of(id) == nullptr) return unknown_resource(id);
  for (const auto& [key, value] : keys)
    if (key.starts_with("aws:"))
      return refuse("InvalidParameterValue",
                    "Tag keys starting with 'aws:' are reserved for internal use");
  for (const auto& id : resources) {
    Tags& tags = *tags_of(id);
    const auto of_aws = [](const auto& tag) { return tag.first.starts_with("aws:"); };
    if (keys.empty()) erase_if(tags, [&](const auto& tag) { return !of_aws(tag); });
    for (const auto& [key, value] : keys) {
      const auto found = tags.find(key);
      if (found != tags.end() && (!value || *value == found->second)) tags.erase(found);
    }
  }
  return {};
}

// ---- what an operator does ----

Answer<void> Region::interrupt(const std::string& instance_id) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end()) return instance_not_found({instance_id});
  InstanceRecord& guest = found->second;
  if (!guest.spot())
    return refuse("UnsupportedOperation", "Instance '" + instance_id + "' is not a spot instance");
  if (guest.state != GuestState::running && guest.state != GuestState::pending)
    return refuse("IncorrectInstanceState", "Instance '" + instance_id + "' is not running");
  if (guest.interrupted_at) return {};
  guest.interrupted_at = now_;
  guest.reclaim_at = now_ + times_.notice;
  note("spot notice instance=" + instance_id);
  tell(InstanceEvent::Kind::interruption, guest);
  at(*guest.reclaim_at, [this, instance_id] { reclaim(instance_id); });
  return {};
}

void Region::reclaim(const std::string& instance_id) {
  const auto marked = instances_.find(instance_id);
  if (marked != instances_.end())
    begin_shutdown(marked->second, "Server.SpotInstanceTermination",
                   "Server.SpotInstanceTermination: Instance was terminated by Amazon EC2");
}

Answer<void> Region::crash(const std::string& instance_id) {
  if (auto cut = impair(instance_id); !cut) return cut;
  InstanceRecord& guest = instances_.at(instance_id);
  const bool spot = guest.spot();
  begin_shutdown(guest, spot ? "Server.SpotInstanceTermination" : "Server.InternalError",
                 spot ? "Server.SpotInstanceTermination: Instance was terminated by Amazon EC2"
                      : "Server.InternalError: Internal error on launch");
  return {};
}

Answer<void> Region::impair(const std::string& instance_id) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end()) return instance_not_found({instance_id});
  InstanceRecord& guest = found->second;
  if (guest.state == GuestState::terminated)
    return refuse("IncorrectInstanceState", "Instance '" + instance_id + "' is terminated");
  note("power cut instance=" + instance_id);
  hardware_.power_off(instance_id, true);
  guest.powered = false;
  guest.impaired = true;
  return {};
}

void Region::power_off_all() {
  for (auto& [id, guest] : instances_) {
    if (guest.powered) hardware_.power_off(id, false);
    guest.powered = false;
    if (guest.imds_port != 0 && close_imds) close_imds(id);
    guest.imds_port = 0;
  }
}

}  // namespace warmroot::sim
