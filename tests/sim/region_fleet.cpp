// See the header; and the region's own part in templates and fleets.
#include "tests/sim/region_fleet.hpp"

#include <algorithm>

#include "tests/sim/region.hpp"
#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

std::vector<FleetPool> fleet_order(const std::string& strategy, std::vector<FleetPool> pools,
                                   int wanted) {
  // EC2 never says how it weighs; "has room for all that is wanted" stands for good capacity.
  const auto ample = [&](const FleetPool& pool) { return pool.room >= wanted; };
  const auto by = [&](auto less) { std::stable_sort(pools.begin(), pools.end(), less); };
  if (strategy == "diversified") return pools;
  if (strategy == "capacity-optimized") {
    by([](const FleetPool& a, const FleetPool& b) { return a.room > b.room; });
  } else if (strategy == "capacity-optimized-prioritized") {
    by([&](const FleetPool& a, const FleetPool& b) {
      if (ample(a) != ample(b)) return ample(a);
      if (a.priority != b.priority) return a.priority < b.priority;
      return a.room > b.room;
    });
  } else if (strategy == "price-capacity-optimized") {
    by([&](const FleetPool& a, const FleetPool& b) {
      if (ample(a) != ample(b)) return ample(a);
      if (!ample(a) && a.room != b.room) return a.room > b.room;
      return a.price < b.price;
    });
  } else if (strategy == "prioritized") {
    by([](const FleetPool& a, const FleetPool& b) { return a.priority < b.priority; });
  } else {
    by([](const FleetPool& a, const FleetPool& b) { return a.price < b.price; });
  }
  return pools;
}

// ---- templates ----

const std::map<std::string, TemplateRecord>& Region::templates() const {
  static const std::map<std::string, TemplateRecord> kNone;
  return shown_catalog_ != nullptr ? kNone : templates_;  // a stranger sees none
}

const TemplateRecord* Region::template_named(const std::string& name) const {
  for (const auto& [id, record] : templates())
    if (record.name == name) return &record;
  return nullptr;
}

Answer<TemplateRecord> Region::create_template(const std::string& name, TemplateVersion version,
                                               const Tags& tags, const std::string& token,
                                               const std::string& fingerprint) {
  if (!token.empty()) {
    const auto known = template_tokens_.find(token);
    if (known != template_tokens_.end() && now_ < known->second.made + times_.token_life) {
      const auto before = templates_.find(known->second.ids.front());
      if (known->second.fingerprint != fingerprint || before == templates_.end())
        return token_mismatch();
      return before->second;
    }
  }
  if (template_named(name) != nullptr)
    return refuse("InvalidLaunchTemplateName.AlreadyExistsException",
                  "Launch template name already in use.");
  if (auto checked = check_tags(tags); !checked) return tl::unexpected(checked.error());
  TemplateRecord made;
  made.id = new_id("lt-");
  made.name = name;
  made.create_time = version.create_time = now_;
  version.number = 1;
  made.versions.push_back(std::move(version));
  made.tags = tags;
  if (!token.empty()) template_tokens_[token] = Token{fingerprint, {made.id}, now_};
  note("create template=" + made.id + " name=" + name);
  return templates_.emplace(made.id, std::move(made)).first->second;
}

Answer<TemplateRecord> Region::add_template_version(const std::string& id, TemplateVersion version,
                                                    const std::string& token,
                                                    const std::string& fingerprint) {
  TemplateRecord& record = templates_.at(id);
  if (!token.empty()) {
    const auto known = template_tokens_.find(id + "/" + token);
    if (known != template_tokens_.end() && now_ < known->second.made + times_.token_life) {
      if (known->second.fingerprint != fingerprint) return token_mismatch();
      return record;
    }
    template_tokens_[id + "/" + token] = Token{fingerprint, {id}, now_};
  }
  constexpr int kMostVersions = 10'000;
  if (static_cast<int>(record.versions.size()) >= kMostVersions)
    return refuse("LaunchTemplateVersionLimitExceeded", "At most 10000 versions are allowed");
  version.number = record.versions.back().number + 1;
  version.create_time = now_;
  record.versions.push_back(std::move(version));
  return record;
}

void Region::delete_template(const std::string& id) {
  note("delete template=" + id);
  templates_.erase(id);
}

// ---- fleets ----

Answer<const FleetRecord*> Region::fleet_of_token(const std::string& token,
                                                  const std::string& fingerprint) const {
  const auto known = fleet_tokens_.find(token);
  if (token.empty() || known == fleet_tokens_.end() ||
      now_ >= known->second.made + times_.token_life)
    return nullptr;
  if (known->second.fingerprint != fingerprint) return token_mismatch();
  return &fleets_.at(known->second.ids.front());
}

const FleetRecord& Region::keep_fleet(FleetRecord fleet, const std::string& token,
                                      const std::string& fingerprint) {
  fleet.create_time = now_;
  if (!token.empty()) fleet_tokens_[token] = Token{fingerprint, {fleet.id}, now_};
  note("fleet=" + fleet.id);
  const std::string id = fleet.id;
  return fleets_.emplace(id, std::move(fleet)).first->second;
}

void Region::tag_by_ec2(const std::string& instance_id, const Tags& tags) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end()) return;
  for (const auto& [key, value] : tags) found->second.tags[key] = value;
}

Answer<InstanceRecord> Region::launch_in_group(const std::string& group, RunInstancesArgs args) {
  args.min_count = args.max_count = 1;
  const auto made = run_instances(args);
  if (!made) return tl::unexpected(made.error());
  tag_by_ec2(made->front().id, {{"aws:autoscaling:groupName", group}});
  return *instance(made->front().id);
}

Answer<void> Region::end_in_group(const std::string& instance_id, Milliseconds hook) {
  const auto found = instances_.find(instance_id);
  const auto group = found == instances_.end()
                         ? Tags::const_iterator()
                         : found->second.tags.find("aws:autoscaling:groupName");
  if (found == instances_.end() || group == found->second.tags.end())
    return refuse("ValidationError",
                  "Instance Id not found - No managed instance found for " + instance_id);
  const auto end = [this, instance_id] {
    const auto guest = instances_.find(instance_id);
    if (guest == instances_.end()) return;
    begin_shutdown(guest->second, "Client.UserInitiatedShutdown",
                   "Client.UserInitiatedShutdown: User initiated shutdown");
  };
  note("group ends instance=" + instance_id);
  if (hook == Milliseconds{0}) {
    end();
    return {};
  }
  if (on_instance_event)
    on_instance_event({InstanceEvent::Kind::group_ends, instance_id, found->second.zone,
                       found->second.state, now_, group->second});
  at(now_ + hook, end);
  return {};
}

}  // namespace warmroot::sim
