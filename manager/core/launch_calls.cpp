// Everything here becomes bytes that a replay repeats: no clock, no order by address.
#include "manager/core/launch_calls.hpp"

#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

/// More names make a reason unreadable.
constexpr std::size_t kNamesShown = 6;

aws::Tags instance_tags(const Draft& draft, const PoolSpec& pool) {
  aws::Tags tags = pool.launch->tags;
  tags[kTagDeployment] = draft.desired.deployment;
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

}  // namespace

aws::RunInstances run_call(const Draft& draft, const PoolSpec& pool, const Offer& offer,
                           const std::vector<std::string>& nodes) {
  const auto& spec = *pool.launch;
  aws::RunInstances call;
  call.image_id = spec.base_ami;
  call.instance_type = offer.instance_type;
  call.min_count = 1;
  call.max_count = static_cast<int>(nodes.size());
  if (const auto subnet = spec.subnets.find(offer.zone); subnet != spec.subnets.end())
    call.subnet_id = subnet->second;
  else
    call.availability_zone = offer.zone;
  call.security_group_ids = spec.security_groups;
  call.key_name = spec.key_name;
  call.instance_profile = spec.instance_profile;
  call.spot = offer.spot;
  if (offer.spot) call.max_price = spec.max_price;
  if (const auto text = draft.observed.user_data.find(pool.name);
      text != draft.observed.user_data.end() && text->second.found)
    call.user_data = *text->second.found;
  call.instance_tags = instance_tags(draft, pool);
  call.volume_tags = spec.tags;  // ours would make the base's root look like a pool volume
  const std::string subject = token_subject(draft, "RunInstances", nodes) + offer.instance_type +
                              (offer.spot ? "" : " on-demand");
  call.client_token =
      client_token({draft.desired.deployment, "RunInstances", pool.name, subject, 0, offer.zone});
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
