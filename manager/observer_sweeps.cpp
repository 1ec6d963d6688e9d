// Listings of everything, at once or page by page over many looks, and those of what ends between
// them.
#include <algorithm>

#include "manager/aws/paging.hpp"
#include "manager/observer.hpp"
#include "manager/observer_requests.hpp"

namespace warmroot::manager {

// ---- sweeps ----

void Observer::begin_sweep(const core::Desired& desired, Instant now) {
  const auto ours = tag_filter(core::kTagDeployment, {desired.deployment});
  Sweep sweep;
  sweep.began = now;
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

/// One page more of so many listings. A token that EC2 has forgotten begins the sweep anew, as does
/// one that it calls wrong otherwise.
Ok Observer::continue_sweep(std::size_t listings, Instant now) {
  auto& left = sweep_->left;
  std::size_t pages = 0;
  Ok read;
  for (; pages < std::min(listings, left.size()); ++pages) {
    read = read_page(left[pages]);
    if (!read) break;
  }
  if (!read && !left[pages].token.empty()) {
    const auto reaction = aws::reaction_for(read.error().code);
    if (reaction == aws::Reaction::restart || reaction == aws::Reaction::request) {
      sweep_.reset();
      return read;
    }
  }
  // Those read to their end are done; one that failed is asked again for the same page.
  const auto rest = left.begin() + static_cast<std::ptrdiff_t>(pages);
  left.erase(std::remove_if(left.begin(), rest,
                            [](const Listing& listing) { return listing.token.empty(); }),
             rest);
  if (!read) return read;
  if (!sweep_->left.empty()) return {};
  for (const auto& id : sweep_->unseen) drop(id);
  swept_from_ = sweep_->began;
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
  begin_sweep(desired, now);
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
    begin_sweep(desired, now);
  }
  look.swept = true;
  return {};
}

/// Running instances are not asked for between sweeps; those that end are, by state.
Ok Observer::list_endings(const core::Desired& desired, Instant now) {
  endings_until_ = now + (options_.told || events_live_ ? kEndingsEveryTold : kEndingsEvery);
  auto request = endings_request(desired, options_.page_size);
  std::set<std::string> stopped;
  for (const auto& [id, instance] : world_.instances)
    if (instance.state == aws::InstanceState::stopped) stopped.insert(id);
  TRY_ASSIGN(auto ending, aws::collect_all(ec2_, &aws::Ec2::describe_instances, request));
  for (auto& instance : ending) {
    stopped.erase(instance.instance_id);
    put(std::move(instance));
  }
  std::vector<std::string> others;
  for (const auto& pool : desired.pools)
    if (!pool.launch) others.push_back(pool.name);
  for (std::size_t first = 0; first < others.size(); first += kPoolsPerFilter) {
    request.filters = {
        tag_filter(core::kTagPool, slice(others, first, kPoolsPerFilter)),
        {"instance-state-name", {"pending", "shutting-down", "stopping", "stopped"}}};
    TRY_ASSIGN(auto changing, aws::collect_all(ec2_, &aws::Ec2::describe_instances, request));
    for (auto& instance : changing) {
      stopped.erase(instance.instance_id);
      put(std::move(instance));
    }
  }
  told_.merge(stopped);  // somebody has started them again
  return {};
}

}  // namespace warmroot::manager
