// Only the listings of volumes and instances decide whether a look is complete; everything else is
// optional and becomes a note when it fails.
#include "manager/observer.hpp"

#include <algorithm>
#include <iterator>

#include "manager/aws/paging.hpp"
#include "manager/core/adopting.hpp"
#include "manager/core/pool_source.hpp"

namespace warmroot::manager {

namespace {

/// A sweep that is under way reads a page so often.
constexpr Milliseconds kSweepPages{1'000};
/// Beside three or four state names in one request of 200 values.
constexpr std::size_t kPoolsPerFilter = 100;
/// Of how many listings a sweep that is under way reads a page at once: the volumes' and the
/// instances'.
constexpr std::size_t kListingsAtOnce = 2;
/// Reads that go out together: well below EC2's bucket of 50 and more, full at the start.
constexpr std::size_t kTogether = 16;

aws::DescribeRequest page_request(const aws::Filter& filter, const std::string& token, int size) {
  aws::DescribeRequest request;
  request.filters = {filter};
  request.max_results = size;
  request.next_token = token;
  return request;
}

aws::DescribeRequest id_request(bool volumes, const std::vector<std::string>& ids, int size) {
  return page_request({volumes ? "volume-id" : "instance-id", ids}, "", size);
}

aws::Filter tag_filter(const char* key, std::vector<std::string> values) {
  return {std::string("tag:") + key, std::move(values)};
}

aws::DescribeRequest endings_request(const core::Desired& desired, int size) {
  auto request = page_request(tag_filter(core::kTagDeployment, {desired.deployment}), "", size);
  request.filters.push_back({"instance-state-name", {"shutting-down", "stopping", "stopped"}});
  return request;
}

/// The key keeps most of what is none of ours out of the answer.
aws::DescribeRequest strangers_request(const std::vector<std::string>& ids, int size) {
  auto request = id_request(false, ids, size);
  request.filters.push_back({"tag-key", {core::kTagPool}});
  return request;
}

/// What the listings of a sweep would show.
bool is_listed(const aws::Instance& instance, const core::Desired& desired) {
  const auto value_of = [&](const char* key) {
    const auto found = instance.tags.find(key);
    return found == instance.tags.end() ? std::string() : found->second;
  };
  if (value_of(core::kTagDeployment) == desired.deployment) return true;
  return std::any_of(desired.pools.begin(), desired.pools.end(), [&](const auto& pool) {
    return !pool.launch && pool.name == value_of(core::kTagPool);
  });
}

bool in_transition(const aws::Volume& volume) {
  using enum aws::VolumeState;
  if (volume.state == creating || volume.state == deleting || volume.state == unknown) return true;
  for (const auto& attachment : volume.attachments)
    if (attachment.state != aws::AttachmentState::attached) return true;
  return false;
}

bool in_transition(const aws::Instance& instance) {
  return instance.state != aws::InstanceState::running &&
         instance.state != aws::InstanceState::terminated;
}

Milliseconds milliseconds_for(std::size_t things, double each) {
  return Milliseconds{static_cast<Milliseconds::rep>(static_cast<double>(things) * each)};
}

bool is_volume(const std::string& id) {
  return !id.starts_with("i-");
}

/// Somebody waits for the volume itself, not only for the word that it is attached.
bool wait_for_volume(const core::Observed& world, const std::string& id) {
  const auto found = world.volumes.find(id);
  if (found == world.volumes.end()) return true;
  if (found->second.state == aws::VolumeState::creating) return true;
  for (const auto& attachment : found->second.attachments)
    if (attachment.state != aws::AttachmentState::attaching) return true;
  return false;
}

std::vector<std::string> slice(const std::vector<std::string>& list, std::size_t first,
                               std::size_t most) {
  const auto last = std::min(list.size(), first + most);
  return {list.begin() + static_cast<std::ptrdiff_t>(first),
          list.begin() + static_cast<std::ptrdiff_t>(last)};
}

/// The ids in the watches of what EC2 does not show as it should.
std::vector<std::string> doubted_ids(const std::string& watch) {
  std::vector<std::string> ids;
  if (watch.starts_with("gone/")) ids = {watch.substr(5)};
  if (watch.starts_with("unattached/")) ids = {watch.substr(11, watch.find('/', 11) - 11)};
  return ids;
}

}  // namespace

// ---- the world as seen so far ----

void Observer::put(aws::Volume volume) {
  const std::string id = volume.volume_id;
  if (in_transition(volume))
    moving_.insert(id);
  else
    moving_.erase(id);
  if (sweep_) sweep_->unseen.erase(id);
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

// ---- sweeps ----

void Observer::begin_sweep(const core::Desired& desired) {
  const auto ours = tag_filter(core::kTagDeployment, {desired.deployment});
  Sweep sweep;
  sweep.left = {{true, ours}, {false, ours}};
  std::vector<std::string> launched_by_others;
  for (const auto& pool : desired.pools)
    if (!pool.launch) launched_by_others.push_back(pool.name);
  for (std::size_t first = 0; first < launched_by_others.size(); first += aws::kMaxFilterValues)
    sweep.left.push_back({false, tag_filter(core::kTagPool, slice(launched_by_others, first,
                                                                  aws::kMaxFilterValues))});
  for (const auto& [id, volume] : world_.volumes) sweep.unseen.insert(sweep.unseen.end(), id);
  for (const auto& [id, instance] : world_.instances) sweep.unseen.insert(id);
  sweep_ = std::move(sweep);
}

/// One page into the world; leaves the next one's token, empty after the last.
Ok Observer::read_page(Listing& listing) {
  const auto request = page_request(listing.filter, listing.token, options_.page_size);
  if (listing.volumes) {
    TRY_ASSIGN(auto page, ec2_.describe_volumes(request));
    for (auto& volume : page.items) put(std::move(volume));
    listing.token = std::move(page.next_token);
  } else {
    TRY_ASSIGN(auto page, ec2_.describe_instances(request));
    for (auto& instance : page.items) put(std::move(instance));
    listing.token = std::move(page.next_token);
  }
  return {};
}

/// One page more of so many listings. A token that EC2 has forgotten begins the sweep anew.
Ok Observer::continue_sweep(std::size_t listings, Instant now) {
  auto& left = sweep_->left;
  std::size_t pages = 0;
  Ok read;
  for (; pages < std::min(listings, left.size()); ++pages) {
    read = read_page(left[pages]);
    if (!read) break;
  }
  if (!read && aws::reaction_for(read.error().code) == aws::Reaction::restart) {
    sweep_.reset();
    return read;
  }
  // Those read to their end are done; one that failed is asked again for the same page.
  const auto rest = left.begin() + static_cast<std::ptrdiff_t>(pages);
  left.erase(std::remove_if(left.begin(), rest,
                            [](const Listing& listing) { return listing.token.empty(); }),
             rest);
  if (!read) return read;
  if (!sweep_->left.empty()) return {};
  for (const auto& id : sweep_->unseen) drop(id);
  sweep_.reset();
  swept_ = now;
  return {};
}

/// The listings' next pages, and the lookups that follow them, which do not need one another.
void Observer::expect_first_look(const core::Desired& desired, Instant now) {
  std::vector<std::string> bodies;
  for (const auto& listing : sweep_->left)
    if (bodies.size() < kTogether)
      bodies.push_back(
          aws::encode(listing.volumes ? aws::Describe::volumes : aws::Describe::instances,
                      page_request(listing.filter, listing.token, options_.page_size)));
  const auto look_up = [&](const auto& cache, aws::Describe what, const std::string& id) {
    const auto known = cache.find(id);
    if (id.empty() || bodies.size() >= kTogether) return;
    if (known != cache.end() && now < known->second.until) return;
    aws::DescribeRequest request;
    request.ids = {id};
    auto body = aws::encode(what, request);
    if (std::find(bodies.begin(), bodies.end(), body) == bodies.end())
      bodies.push_back(std::move(body));
  };
  if (!lookups_expected_) {
    for (const auto& pool : desired.pools) {
      look_up(images_, aws::Describe::images, pool.ami);
      look_up(snapshots_, aws::Describe::snapshots, pool.snapshot);
      if (!pool.launch) continue;
      look_up(images_, aws::Describe::images, pool.launch->base_ami);
      for (const auto& [zone, subnet] : pool.launch->subnets)
        look_up(subnets_, aws::Describe::subnets, subnet);
    }
    if (now >= zones_until_) bodies.push_back(aws::encode_describe_availability_zones());
    for (auto& body : market_.first_questions(desired, now)) bodies.push_back(std::move(body));
    lookups_expected_ = true;
  }
  ec2_.expect(bodies);
}

Ok Observer::list_everything(const core::Desired& desired, Instant now, Look& look) {
  bool restarted = false;
  begin_sweep(desired);
  lookups_expected_ = false;
  for (int pages = 0; sweep_; ++pages) {
    if (pages == aws::kMaxPages)
      return fail(ErrorKind::broken,
                  "a listing did not end after " + std::to_string(pages) + " pages");
    expect_first_look(desired, now);
    auto read = continue_sweep(sweep_->left.size(), now);
    if (read) continue;
    if (sweep_ || restarted) {
      sweep_.reset();
      return read;
    }
    restarted = true;
    begin_sweep(desired);
  }
  look.swept = true;
  return {};
}

/// Running instances are not asked for between sweeps; those that end are, by state.
Ok Observer::list_endings(const core::Desired& desired, Instant now) {
  endings_until_ = now + (options_.told || events_live_ ? kEndingsEveryTold : kEndingsEvery);
  auto request = endings_request(desired, options_.page_size);
  TRY_ASSIGN(auto ending, aws::collect_all(ec2_, &aws::Ec2::describe_instances, request));
  for (auto& instance : ending) put(std::move(instance));
  std::vector<std::string> others;
  for (const auto& pool : desired.pools)
    if (!pool.launch) others.push_back(pool.name);
  for (std::size_t first = 0; first < others.size(); first += kPoolsPerFilter) {
    request.filters = {
        tag_filter(core::kTagPool, slice(others, first, kPoolsPerFilter)),
        {"instance-state-name", {"pending", "shutting-down", "stopping", "stopped"}}};
    TRY_ASSIGN(auto changing, aws::collect_all(ec2_, &aws::Ec2::describe_instances, request));
    for (auto& instance : changing) put(std::move(instance));
  }
  return {};
}

// ---- looks by id ----

Milliseconds Observer::attaching_patience() const {
  return std::clamp(milliseconds_for(things(), kAttachingPatiencePerThingMs), kAttachingEvery,
                    kAttachingPatienceMost);
}

Milliseconds Observer::patience_for(const std::string& id) const {
  const bool attaching = is_volume(id) && !wait_for_volume(world_, id);
  if (told_.contains(id))
    return attaching ? std::max(kAttachingTold, attaching_patience()) : Milliseconds{0};
  if (options_.told || (events_live_ && !is_volume(id)))
    return attaching ? std::max(kAttachingEveryTold, attaching_patience()) : kMovingEveryTold;
  return std::max(attaching ? attaching_patience() : kMovingEvery,
                  milliseconds_for(moving_.size(), kPatiencePerMovingMs));
}

void Observer::add_due(const std::string& id, Instant at, Look& look) const {
  auto& due = is_volume(id) && !wait_for_volume(world_, id) ? look.due_at_leisure : look.due;
  if (!due || at < *due) due = at;
}

/// What changes by itself, what leases wait for, what is recorded and not shown; each in its time.
Observer::Due Observer::what_is_due(const core::LedgerView& ledger, Instant now, Look& look) {
  std::map<std::string, Instant> asked;  // what may be asked for, and since when it is
  const auto add = [&](const std::string& id, Instant since) {
    const auto before = looked_.find(id);
    asked.insert_or_assign(id, before == looked_.end() ? since : std::max(since, before->second));
  };
  for (const auto& id : moving_) add(id, Instant{});
  for (const auto& lease : ledger.leases) {
    if (lease.state == core::LeaseState::attaching) add(lease.volume_id, lease.since);
    if (lease.state == core::LeaseState::leaving) add(lease.volume_id, Instant{});
    if (!world_.instances.contains(lease.instance_id)) add(lease.instance_id, Instant{});
  }
  for (const auto& [id, owned] : ledger.volumes)
    if (!world_.volumes.contains(id)) add(id, Instant{});
  for (const auto& [id, launched] : ledger.instances)
    if (!world_.instances.contains(id)) add(id, Instant{});
  for (const auto& order : ledger.orders)
    if (!world_.volumes.contains(order.subject) && !world_.instances.contains(order.subject))
      add(order.subject, Instant{});
  // Nobody asked for them by themselves, and a node waits for each.
  std::erase_if(carried_, [&](const auto& entry) {
    return world_.volumes.contains(entry.first) || !world_.instances.contains(entry.second);
  });
  for (const auto& [id, instance] : carried_) add(id, Instant{});
  for (const auto& id : told_)
    if (world_.volumes.contains(id) || world_.instances.contains(id)) add(id, Instant{});
  // What is about to be given up must have been looked at each time that counts.
  std::set<std::string> doubted;
  for (const auto& [key, watch] : ledger.watches)
    for (auto& id : doubted_ids(key)) doubted.insert(std::move(id));
  for (const auto& id : doubted) asked.insert_or_assign(id, Instant{});

  Due due;
  bool any[] = {false, false};
  for (const auto& [id, since] : asked)
    any[is_volume(id)] = any[is_volume(id)] || now >= since + patience_for(id);
  for (const auto& [id, since] : asked) {
    // With a call to be made anyway, what would be due soon comes along.
    const auto patience = patience_for(id);
    if (any[is_volume(id)] && now >= since + patience / 2)
      (is_volume(id) ? due.volumes : due.instances).push_back(id);
    else
      add_due(id, since + patience, look);
  }
  for (const auto& [id, since] : asked) strangers_.forget(id);
  std::erase_if(told_, [&](const auto& id) { return !asked.contains(id); });
  std::erase_if(looked_, [&](const auto& entry) { return !asked.contains(entry.first); });
  return due;
}

/// As filters, not as ids: one id that is gone fails a whole list of ids, a filter just leaves it
/// out.
Ok Observer::ask_by_id(const std::vector<std::string>& ids, bool volumes, Instant now) {
  for (std::size_t first = 0; first < ids.size(); first += aws::kMaxFilterValues) {
    const auto some = slice(ids, first, aws::kMaxFilterValues);
    const auto request = id_request(volumes, some, options_.page_size);
    std::set<std::string> absent(some.begin(), some.end());
    if (volumes) {
      TRY_ASSIGN(auto found, aws::collect_all(ec2_, &aws::Ec2::describe_volumes, request));
      for (auto& volume : found) {
        absent.erase(volume.volume_id);
        put(std::move(volume));
      }
    } else {
      TRY_ASSIGN(auto found, aws::collect_all(ec2_, &aws::Ec2::describe_instances, request));
      for (auto& instance : found) {
        absent.erase(instance.instance_id);
        put(std::move(instance));
      }
    }
    for (const auto& id : absent) drop(id);
    for (const auto& id : some) {
      looked_.insert_or_assign(id, now);
      told_.erase(id);
    }
  }
  return {};
}

void Observer::add_ids(const Due& due, int page_size, std::vector<std::string>& bodies) {
  for (const bool volumes : {true, false}) {
    const auto& ids = volumes ? due.volumes : due.instances;
    for (std::size_t first = 0; first < ids.size() && bodies.size() < kTogether;
         first += aws::kMaxFilterValues)
      bodies.push_back(
          aws::encode(volumes ? aws::Describe::volumes : aws::Describe::instances,
                      id_request(volumes, slice(ids, first, aws::kMaxFilterValues), page_size)));
  }
}

Ok Observer::look_by_id(const Due& due, Instant now, Look& look) {
  TRY(ask_by_id(due.volumes, true, now));
  TRY(ask_by_id(due.instances, false, now));
  for (const auto* ids : {&due.volumes, &due.instances})
    for (const auto& id : *ids)
      if (moving_.contains(id)) add_due(id, now + patience_for(id), look);
  return {};
}

/// Those of whom EC2 does not answer wait on: nobody else's view depends on them.
void Observer::ask_about_strangers(const core::Desired& desired,
                                   const std::vector<std::string>& ids, Instant now, Look& look) {
  if (ids.empty()) return;
  auto found = aws::collect_all(ec2_, &aws::Ec2::describe_instances,
                                strangers_request(ids, options_.page_size));
  if (!found) {
    strangers_.put_off(now);
    look.observed.notes.push_back("instances that events named could not be looked at: " +
                                  found.error().message());
    return;
  }
  strangers_.answered(ids, now);
  for (auto& instance : *found)
    if (is_listed(instance, desired) && instance.state != aws::InstanceState::terminated)
      put(std::move(instance));
}

void Observer::show(const core::Desired& desired, const Ok& read, Instant now, Look& look) {
  auto& observed = look.observed;
  observed.volumes = world_.volumes;
  observed.instances = world_.instances;
  observed.statuses = world_.statuses;
  observed.at = now;
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
                    bool settled, bool everything) {
  take_in_what_was_learned();
  Look look;
  // First: where credentials were another account's for a while, what shows the source shows the
  // volumes as well.
  if (std::exchange(sources_doubted_, false)) look_up_pools(desired, look.observed, now);
  const auto apart = std::max(kSweepAtLeast, kSweepPerThing * static_cast<int>(things()));
  const bool overdue = swept_ && now - *swept_ >= apart;
  std::optional<Due> due;
  std::vector<std::string> strangers;
  Ok read;
  if (everything || !swept_ || (small() && (settled || overdue))) {
    read = list_everything(desired, now, look);
    if (read) strangers_.forget_waiting();
  } else {
    if (!sweep_ && overdue) begin_sweep(desired);
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
  if (read) market_.ask(desired, ledger, zones_, now);
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
  return look;
}

}  // namespace warmroot::manager
