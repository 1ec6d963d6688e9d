// Only the listings of volumes and instances decide whether a look is complete; everything else is
// optional and becomes a note when it fails.
#include "manager/observer.hpp"

#include <algorithm>
#include <utility>

#include "manager/aws/paging.hpp"
#include "manager/core/adopting.hpp"
#include "manager/observer_requests.hpp"

namespace warmroot::manager {

namespace {

/// A sweep that is under way reads a page so often.
constexpr Milliseconds kSweepPages{1'000};
/// Of how many listings a sweep that is under way reads a page at once: the volumes' and the
/// instances'.
constexpr std::size_t kListingsAtOnce = 2;

bool in_transition(const aws::Volume& volume) {
  using enum aws::VolumeState;
  if (volume.state == creating || volume.state == deleting || volume.state == unknown) return true;
  for (const auto& attachment : volume.attachments)
    if (attachment.state != aws::AttachmentState::attached) return true;
  return false;
}

bool in_transition(const aws::Instance& instance) {
  using enum aws::InstanceState;
  return instance.state != running && instance.state != stopped && instance.state != terminated;
}

}  // namespace

// ---- the world as seen so far ----

/// What is as it was is not written: others may hold the world as it was shown, and a change would
/// copy it.
void Observer::put(aws::Volume volume) {
  const std::string id = volume.volume_id;
  if (in_transition(volume))
    moving_.insert(id);
  else
    moving_.erase(id);
  if (sweep_) sweep_->unseen.erase(id);
  if (const auto known = world_.volumes.find(id);
      known == world_.volumes.end() || !(known->second == volume))
    world_.volumes.insert_or_assign(id, std::move(volume));
}

void Observer::put(aws::Instance instance) {
  const std::string id = instance.instance_id;
  if (in_transition(instance))
    moving_.insert(id);
  else
    moving_.erase(id);
  if (sweep_) sweep_->unseen.erase(id);
  std::erase_if(carried_, [&](const auto& entry) { return entry.second == id; });
  if (instance.tags.contains(core::kTagLaunchVolume))
    for (const auto& device : instance.block_devices)
      if (device.device_name == core::kLaunchDevice && !world_.volumes.contains(device.volume_id))
        carried_[device.volume_id] = id;
  if (const auto known = world_.instances.find(id);
      known == world_.instances.end() || !(known->second == instance))
    world_.instances.insert_or_assign(id, std::move(instance));
}

void Observer::drop(const std::string& id) {
  moving_.erase(id);
  if (is_volume(id))
    world_.volumes.erase(id);
  else
    world_.instances.erase(id);
}

bool Observer::look_at(const std::vector<std::string>& ids) {
  bool awaited = false;
  for (const auto& id : ids) {
    told_.insert(id);
    if (!is_volume(id) && !world_.instances.contains(id)) strangers_.hear_of(id);
    awaited = awaited || !is_volume(id) || wait_for_volume(world_, id);
  }
  return awaited;
}

void Observer::doubt(const std::vector<std::string>& ids) {
  for (const auto& id : ids) {
    told_.insert(id);
    looked_.erase(id);
  }
}

/// What was learned waits for the next look: until then others may hold the world as it was shown,
/// and a change would copy it.
void Observer::learn(aws::Attachment attachment, Instant now) {
  if (!world_.volumes.contains(attachment.volume_id)) return;
  looked_.insert_or_assign(attachment.volume_id, now);
  learned_.push_back(std::move(attachment));
}

void Observer::take_in_what_was_learned() {
  for (auto& attachment : std::exchange(learned_, {})) {
    const auto found = world_.volumes.find(attachment.volume_id);
    if (found == world_.volumes.end()) continue;
    aws::Volume volume = found->second;
    volume.state = aws::VolumeState::in_use;
    volume.attachments = {std::move(attachment)};
    put(std::move(volume));
  }
}

// ---- looks ----

void Observer::show(const core::Desired& desired, const Ok& read, Instant now, Look& look) {
  auto& observed = look.observed;
  observed.volumes = world_.volumes;
  observed.instances = world_.instances;
  observed.statuses = world_.statuses;
  observed.at = now;
  observed.listed = swept_.value_or(Instant{});
  observed.listed_from = swept_from_;
  if (!read) {
    look.blind = read.error();
    observed.notes.push_back(read.error().message());
    return;  // the lookups would fail in the same way
  }
  observed.complete = true;
  look_up_pools(desired, observed, now);
  look_up_zones(observed, now);
  market_.add(observed);
  filling_.look(desired, observed, now);
}

/// Pages of the sweep that is under way, and instances that end. What the look asks for by id goes
/// out with them.
Ok Observer::look_at_part(const core::Desired& desired, const Due& due,
                          const std::vector<std::string>& strangers, Instant now) {
  const bool endings = !small() && now >= endings_until_;
  std::vector<std::string> bodies;
  const std::size_t listings = sweep_ ? std::min(sweep_->left.size(), kListingsAtOnce) : 0;
  for (std::size_t i = 0; i < listings; ++i) {
    const auto& listing = sweep_->left[i];
    bodies.push_back(
        aws::encode(listing.volumes ? aws::Describe::volumes : aws::Describe::instances,
                    page_request(listing.filter, listing.token, options_.page_size)));
  }
  if (endings)
    bodies.push_back(
        aws::encode(aws::Describe::instances, endings_request(desired, options_.page_size)));
  add_ids(due, options_.page_size, bodies);
  if (!strangers.empty())
    bodies.push_back(
        aws::encode(aws::Describe::instances, strangers_request(strangers, options_.page_size)));
  if (!bodies.empty()) ec2_.expect(bodies);
  if (sweep_) TRY(continue_sweep(listings, now));
  if (endings) TRY(list_endings(desired, now));
  return {};
}

Look Observer::look(const core::Desired& desired, const core::LedgerView& ledger, Instant now,
                    bool settled) {
  take_in_what_was_learned();
  Look look;
  doubt_what_absence_rests_on(ledger, now);
  // First: where credentials were another account's for a while, what shows the source shows the
  // volumes as well.
  if (std::exchange(sources_doubted_, false)) look_up_pools(desired, look.observed, now);
  const auto apart = std::max(kSweepAtLeast, kSweepPerThing * static_cast<int>(things()));
  // What was asked for just before the manager began is in no listing before this one.
  const Instant shown = ledger.begun + core::kVisibilityWindow;
  const bool behind = now >= shown && swept_from_ < shown;
  const bool overdue = swept_ && (behind || now - *swept_ >= apart);
  std::optional<Due> due;
  std::vector<std::string> strangers;
  Ok read;
  if (!swept_ || (small() && (settled || overdue))) {
    read = list_everything(desired, now, look);
    if (read) strangers_.forget_waiting();
  } else {
    if (!sweep_ && overdue) begin_sweep(desired, now);
    due = what_is_due(ledger, now, look);
    strangers = strangers_.to_ask(now);
    read = look_at_part(desired, *due, strangers, now);
    // What the end of a sweep takes out of the world is asked for by id in the same look.
    if (swept_ == now) due.reset();
  }
  if (!due) due = what_is_due(ledger, now, look);
  if (read) read = look_by_id(*due, now, look);
  if (read) ask_about_strangers(desired, strangers, now, look);
  if (read) look_at_statuses(ledger, look.observed, now);
  if (read) {
    look_up_zones(look.observed, now);  // scores name zones by id
    market_.ask(desired, ledger, zones_, world_.instances, now);
  }
  if (sweep_ && !small())
    look.due =
        std::min(look.due.value_or(Instant::max()),
                 now + std::max(kSweepPages, milliseconds_for(things(), kSweepPatiencePerThingMs)));
  show(desired, read, now, look);
  ec2_.expect({});
  return look;
}

Look Observer::verify(const core::Desired& desired, const std::vector<std::string>& ids,
                      Instant now) {
  std::vector<std::string> volumes;
  std::vector<std::string> instances;
  for (const auto& id : ids) (is_volume(id) ? volumes : instances).push_back(id);
  Look look;
  std::vector<std::string> bodies;
  add_ids({volumes, instances}, options_.page_size, bodies);
  if (!bodies.empty()) ec2_.expect(bodies);
  Ok read = ask_by_id(volumes, true, now);
  if (read) read = ask_by_id(instances, false, now);
  for (std::size_t first = 0; read && first < instances.size(); first += kPoolsPerFilter) {
    aws::DescribeRequest request;
    request.filters = {tag_filter(core::kTagDeployment, {desired.deployment}),
                       {"attachment.instance-id", slice(instances, first, kPoolsPerFilter)}};
    request.max_results = options_.page_size;
    auto attached = aws::collect_all(ec2_, &aws::Ec2::describe_volumes, request);
    if (!attached) {
      read = fail(attached.error());
      break;
    }
    for (auto& volume : *attached) put(std::move(volume));
  }
  show(desired, read, now, look);
  ec2_.expect({});
  return look;
}

}  // namespace warmroot::manager
