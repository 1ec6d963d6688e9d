// Everything here becomes bytes that a replay repeats: no clock, no order by address.
#include "manager/core/launch_calls.hpp"

#include "manager/core/adopting.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

/// More names make a reason unreadable.
constexpr std::size_t kNamesShown = 6;

aws::Tags instance_tags(const std::string& deployment, const PoolSpec& pool) {
  aws::Tags tags = pool.launch->tags;
  tags[kTagDeployment] = deployment;
  tags[kTagPool] = pool.name;
  tags.try_emplace("Name", "warmroot " + pool.name);
  return tags;
}

/// The nodes and how often each was launched for: a new wish is a new token.
std::string token_subject(const Draft& draft, const char* action,
                          const std::vector<std::string>& nodes) {
  std::string subject;
  for (const auto& node : nodes)
    subject += node + ":" + std::to_string(draft.generation(action, node)) + " ";
  return subject;
}

void set_offer(aws::RunInstances& call, const LaunchSpec& spec, const Offer& offer) {
  call.instance_type = offer.instance_type;
  set_zone(call, spec, offer.zone);
  call.spot = offer.spot;
  if (offer.spot) call.max_price = spec.max_price;
}

}  // namespace

void set_zone(aws::RunInstances& call, const LaunchSpec& spec, const std::string& zone) {
  const auto subnet = spec.subnets.find(zone);
  call.subnet_id = subnet == spec.subnets.end() ? "" : subnet->second;
  call.availability_zone = subnet == spec.subnets.end() ? zone : "";
}

void add_volume(aws::RunInstances& call, const std::string& deployment, const PoolSpec& pool,
                const std::string& snapshot_id) {
  const auto& spec = pool.volumes;
  aws::NewBlockDevice device;
  device.device_name = kLaunchDevice;
  device.snapshot_id = snapshot_id;
  device.size_gib = spec.size_gib;
  device.volume_type = spec.type;
  device.iops = spec.iops;
  device.throughput_mib_s = spec.throughput_mib_s;
  device.encrypted = spec.encrypted;
  device.kms_key = spec.kms_key;
  device.delete_on_termination = false;  // said explicitly: EC2's two documents disagree
  call.block_devices = {device};
  // EC2 gives these to the base's root as well: the role tells that no node has it yet.
  for (const auto& [key, value] : spec.tags) call.volume_tags[key] = value;
  call.volume_tags[kTagDeployment] = deployment;
  call.volume_tags[kTagPool] = pool.name;
  call.volume_tags[kTagLineage] = snapshot_id;
  call.volume_tags[kTagRole] = kRoleLaunch;
  call.instance_tags[kTagLaunchVolume] = kLaunchDevice;
}

aws::RunInstances launch_contents(const Observed& observed, const PoolSpec& pool) {
  const auto& spec = *pool.launch;
  aws::RunInstances call;
  call.image_id = spec.base_ami;
  call.security_group_ids = spec.security_groups;
  call.key_name = spec.key_name;
  call.instance_profile = spec.instance_profile;
  if (const auto text = observed.user_data.find(pool.name);
      text != observed.user_data.end() && text->second.found)
    call.user_data = *text->second.found;
  return call;
}

aws::RunInstances probe_call(const Observed& observed, const std::string& deployment,
                             const PoolSpec& pool) {
  aws::RunInstances call = launch_contents(observed, pool);
  const auto& types = pool.launch->instance_types;
  set_offer(call, *pool.launch,
            {types.empty() ? "" : types.front(), pool.zones.empty() ? "" : pool.zones.front()});
  call.instance_tags = instance_tags(deployment, pool);
  call.volume_tags = pool.launch->tags;
  return call;
}

aws::RunInstances run_call(const Draft& draft, const PoolSpec& pool, const Offer& offer,
                           const std::vector<std::string>& nodes) {
  const auto& spec = *pool.launch;
  aws::RunInstances call = launch_contents(draft.observed, pool);
  call.max_count = static_cast<int>(nodes.size());
  set_offer(call, spec, offer);
  call.instance_tags = instance_tags(draft.desired.deployment, pool);
  call.volume_tags = spec.tags;  // ours would make the base's root look like a pool volume
  const std::string subject = token_subject(draft, "RunInstances", nodes) + offer.instance_type +
                              (offer.spot ? "" : " on-demand");
  call.client_token =
      client_token({draft.desired.deployment, "RunInstances", pool.name, subject, 0, offer.zone});
  return call;
}

aws::RunInstances run_call_with_volumes(const Draft& draft, const PoolDraft& pool,
                                        const Offer& offer, const std::vector<std::string>& nodes) {
  auto call = run_call(draft, *pool.spec, offer, nodes);
  add_volume(call, draft.desired.deployment, *pool.spec, pool.source.snapshot_id);
  call.client_token =
      client_token({draft.desired.deployment, "RunInstances", pool.spec->name,
                    token_subject(draft, "RunInstances", nodes) + offer.instance_type +
                        (offer.spot ? "" : " on-demand") + " with volume",
                    0, offer.zone});
  return call;
}

aws::CreateFleet fleet_call(const Draft& draft, const PoolSpec& pool,
                            const std::string& template_id, const std::vector<PricedOffer>& offers,
                            const std::vector<std::string>& nodes) {
  const auto& spec = *pool.launch;
  aws::CreateFleet call;
  call.launch_template_id = template_id;
  call.launch_template_version = "1";  // ours never have another
  call.target_capacity = static_cast<int>(nodes.size());
  call.spot = offers.front().offer.spot;
  std::string subject = token_subject(draft, "CreateFleet", nodes) + template_id;
  for (const auto& [offer, price] : offers) {
    const auto subnet = spec.subnets.find(offer.zone);
    call.overrides.push_back({offer.instance_type,
                              subnet == spec.subnets.end() ? "" : subnet->second, offer.zone,
                              offer.spot ? spec.max_price : ""});
    subject += " " + offer.instance_type + (offer.spot ? "" : " on-demand");
  }
  call.fleet_tags = {{kTagDeployment, draft.desired.deployment}, {kTagPool, pool.name}};
  call.instance_tags = instance_tags(draft.desired.deployment, pool);
  call.volume_tags = spec.tags;
  call.client_token = client_token(
      {draft.desired.deployment, "CreateFleet", pool.name, subject, 0, offers.front().offer.zone});
  call.instance_tags[kTagLaunch] = call.client_token;
  return call;
}

std::string why_launched(const std::vector<std::string>& nodes, const ZoneOffers& offers) {
  std::string text;
  for (std::size_t i = 0; i < nodes.size() && i < kNamesShown; ++i)
    text += (i == 0 ? "" : ", ") + nodes[i];
  if (nodes.size() > kNamesShown)
    text += " and " + std::to_string(nodes.size() - kNamesShown) + " more";
  text += nodes.size() == 1 ? " has no instance" : " have no instance";
  const auto& best = offers.usable().front();
  if (best.price)
    text += "; " + best.offer.instance_type + (best.offer.spot ? " costs " : " on demand costs ") +
            (offers.usable().size() > 1 ? "least, " : "") + usd_text(*best.price) + " USD an hour";
  if (!best.offer.spot) text += "; spot had no capacity";
  return text;
}

}  // namespace warmroot::core
