// One pool against what EC2 knows. The planner's own checks (pool_source) come first; the rest is
// what the planner would meet only when it is too late.
#include <algorithm>
#include <set>

#include "bootstrap/base/words.hpp"
#include "manager/core/pool_source.hpp"
#include "manager/doctor.hpp"
#include "manager/user_data.hpp"

namespace warmroot::manager {
namespace {

/// Collects the findings of one pool.
struct Notes {
  const std::string& pool;
  std::vector<Finding>& findings;

  void ok(const char* check, std::string text) {
    findings.push_back(Finding::ok(check, pool, std::move(text)));
  }
  void wrong(const char* check, std::string text, std::string remedy) {
    findings.push_back(Finding::wrong(check, pool, std::move(text), std::move(remedy)));
  }
  void unknown(const char* check, std::string text, std::string remedy) {
    findings.push_back(Finding::unknown(check, pool, std::move(text), std::move(remedy)));
  }
  /// A sentence of ours ends with its remedy, after the last colon.
  void wrong_as_said(const char* check, const std::string& sentence, const char* otherwise) {
    const auto colon = sentence.rfind(": ");
    if (colon == std::string::npos) return wrong(check, sentence, otherwise);
    wrong(check, sentence.substr(0, colon), sentence.substr(colon + 2));
  }
};

const aws::Image* image_of(const core::Observed& observed, const std::string& id) {
  const auto found = observed.images.find(id);
  return found != observed.images.end() && found->second.found ? &*found->second.found : nullptr;
}

/// What the lookups say that EC2 did not answer: its own words, without a remedy of ours.
std::set<std::string> unanswered_lookups(const core::Observed& observed) {
  std::set<std::string> sentences;
  const auto collect = [&sentences](const auto& lookups) {
    for (const auto& [id, lookup] : lookups)
      if (lookup.transient) sentences.insert(lookup.error);
  };
  collect(observed.images);
  collect(observed.snapshots);
  collect(observed.subnets);
  return sentences;
}

/// What the Marketplace has sold binds volumes of the AMI; of the base AMI it binds launches alone,
/// and nothing that we ask tells whether the account is subscribed.
void check_product_codes(const core::PoolSpec& pool, const core::Observed& observed, Notes notes) {
  constexpr const char* kCheck = "product codes";
  if (const auto* image = image_of(observed, pool.ami); image && !image->product_codes.empty())
    notes.wrong(kCheck,
                "AMI " + pool.ami + " has Marketplace product code " +
                    joined(image->product_codes, ", ") +
                    ", and volumes made from it attach to stopped instances only",
                "use another AMI");
  else if (image)
    notes.ok(kCheck, "AMI " + pool.ami + " has none");
  if (!pool.launch) return;
  const std::string& id = pool.launch->base_ami;
  if (const auto* base = image_of(observed, id); base && !base->product_codes.empty())
    notes.unknown(kCheck,
                  "base AMI " + id + " has Marketplace product code " +
                      joined(base->product_codes, ", ") +
                      ", and launches fail with OptInRequired until the account is subscribed",
                  "subscribe to it in AWS Marketplace, or name another base AMI");
  else if (base)
    notes.ok(kCheck, "base AMI " + id + " has none");
}

/// A base that boots by UUID, label or PARTUUID has its root twice once the volume is there.
void check_base(const core::PoolSpec& pool, const core::Observed& observed,
                const std::string& snapshot_id, Notes notes) {
  if (!pool.launch) return;
  const std::string& id = pool.launch->base_ami;
  const auto* base = image_of(observed, id);
  if (!base) return;
  if (id == pool.ami || core::root_snapshot_of(*base) == snapshot_id)
    notes.unknown("base AMI",
                  id +
                      " is what the volumes are made from, too: unless the base boots by GRUB with "
                      "an initramfs, an instance that is reset may come up on its volume instead "
                      "of the base, with nobody to give that back",
                  "name another base AMI of the same architecture");
  else
    notes.ok("base AMI", id + " has another root than the volumes");
}

void check_source(const core::PoolSpec& pool, const DoctorFacts& facts,
                  const core::Observed& observed, Notes notes) {
  const core::PoolSource source = core::find_source(pool, observed);
  const std::set<std::string> unanswered = unanswered_lookups(observed);
  for (const std::string& problem : source.problems)
    if (!unanswered.contains(problem))
      notes.wrong_as_said("source", problem, "correct it in the pool's table of the spec");
    else if (says_denied(problem))
      notes.wrong("source", problem, who_denies(problem));
    else
      notes.unknown("source", problem, remedy_of_quoted(problem));
  if (source.problems.empty())
    notes.ok("source",
             "snapshot " + source.snapshot_id + " is complete, zones, subnets and AMIs fit");
  check_product_codes(pool, observed, notes);
  check_base(pool, observed, source.snapshot_id, notes);
  const auto snapshot = observed.snapshots.find(source.snapshot_id);
  if (snapshot == observed.snapshots.end() || !snapshot->second.found) return;
  const std::string& owner = snapshot->second.found->owner_id;
  if (facts.account.empty() || owner.empty())
    notes.unknown("snapshot", "whose " + source.snapshot_id + " is cannot be told",
                  owner.empty() ? "look at its owner in EC2's console: the pool stops when a "
                                  "snapshot of others is not shared any more"
                                : "compare its owner, account " + owner +
                                      ", with `aws sts get-caller-identity`");
  else if (owner == facts.account)
    notes.ok("snapshot", source.snapshot_id + " is of this account");
  else
    notes.ok("snapshot", source.snapshot_id + " is account " + owner +
                             "'s and shared; the pool stops when it is not shared any more");
}

/// Sentences about the types that cannot run the base AMI, are not there, or are Xen.
void check_types(const core::PoolSpec& pool, const core::Observed& observed, const TypeFacts& facts,
                 Notes notes) {
  const auto* base = image_of(observed, pool.launch->base_ami);
  for (const std::string& name : pool.launch->instance_types) {
    if (!facts.types) {
      notes.unknown("instance type",
                    name + " could not be looked up: " + facts.types_error.message(),
                    remedy_of(facts.types_error));
      continue;
    }
    const auto found = facts.types->find(name);
    if (found == facts.types->end()) {
      notes.wrong("instance type", name + " does not exist in this Region",
                  "correct `instance_types`");
      continue;
    }
    const aws::InstanceType& type = found->second;
    const bool fits = !base || base->architecture.empty() || type.architectures.empty() ||
                      std::find(type.architectures.begin(), type.architectures.end(),
                                base->architecture) != type.architectures.end();
    if (!fits) {
      notes.wrong("instance type",
                  name + " is " + joined(type.architectures, ", ") + ", but base AMI " +
                      base->image_id + " is " + base->architecture,
                  "name types of that architecture");
      continue;
    }
    notes.ok("instance type",
             name +
                 (type.hypervisor == "xen"
                      ? " is Xen: volumes are /dev/xvdX there, without serials; the new disk is "
                        "what tells the volume"
                      : " runs on Nitro") +
                 (base ? " and runs " + base->architecture : ""));
  }
}

/// The pool's types without those that do not exist, of which enough is said.
std::vector<std::string> existing_types(const core::PoolSpec& pool, const TypeFacts& facts) {
  std::vector<std::string> names = pool.launch->instance_types;
  if (facts.types)
    std::erase_if(names, [&](const std::string& name) { return !facts.types->contains(name); });
  return names;
}

void check_offerings(const core::PoolSpec& pool, const TypeFacts& facts, Notes notes) {
  const auto types = existing_types(pool, facts);
  if (types.empty()) return;
  if (!facts.offerings)
    return notes.unknown(
        "instance type",
        "which zones offer the types could not be asked: " + facts.offerings_error.message(),
        remedy_of(facts.offerings_error));
  for (const std::string& zone : pool.zones) {
    std::vector<std::string> absent;
    for (const std::string& name : types)
      if (std::none_of(facts.offerings->begin(), facts.offerings->end(),
                       [&](const aws::InstanceTypeOffering& each) {
                         return each.instance_type == name && each.availability_zone == zone;
                       }))
        absent.push_back(name);
    if (absent.size() == types.size())
      notes.wrong("instance type", zone + " offers none of " + joined(absent, ", "),
                  "add a type that it has, or leave the zone out");
    else if (!absent.empty())
      notes.ok("instance type",
               zone + " does not offer " + joined(absent, ", ") + "; the others serve it");
  }
}

/// Nodes that run in the zone.
int running_in(const core::PoolSpec& pool, const std::string& zone) {
  int count = 0;
  for (int node = 0; node < pool.running; ++node)
    if (pool.zones[static_cast<std::size_t>(node) % pool.zones.size()] == zone) ++count;
  return count;
}

/// Nodes of all pools that still need an address of the subnet: those that run have theirs.
int addresses_needed(const core::Desired& desired, const core::Observed& observed,
                     const std::string& subnet) {
  int nodes = 0;
  std::set<std::string_view> pools;
  for (const auto& pool : desired.pools) {
    if (!pool.launch) continue;
    pools.insert(pool.name);
    for (const auto& [zone, named] : pool.launch->subnets)
      if (named == subnet) nodes += running_in(pool, zone);
  }
  for (const auto& [id, instance] : observed.instances) {
    const bool up = instance.state == aws::InstanceState::pending ||
                    instance.state == aws::InstanceState::running;
    const auto pool = instance.tags.find(core::kTagPool);
    if (up && instance.subnet_id == subnet && pool != instance.tags.end() &&
        pools.contains(pool->second))
      --nodes;
  }
  return std::max(0, nodes);
}

void check_subnets(const core::PoolSpec& pool, const DoctorFacts& facts,
                   const core::Observed& observed, Notes notes) {
  for (const std::string& zone : pool.zones) {
    const auto given = pool.launch->subnets.find(zone);
    if (given == pool.launch->subnets.end()) {
      notes.unknown(
          "subnet",
          "none is named for " + zone + ", and the zone's default subnet is used, if there is one",
          "name it in `subnets` to be sure");
      continue;
    }
    const auto found = observed.subnets.find(given->second);
    if (found == observed.subnets.end() || !found->second.found) continue;  // told by the source
    const int free = found->second.found->available_addresses;
    const int needed = addresses_needed(facts.desired, observed, given->second);
    const std::string has = given->second + " in " + zone + " has " + std::to_string(free) +
                            " free addresses for " + std::to_string(needed) +
                            " nodes of all pools that have none yet";
    if (free < needed)
      notes.wrong("subnet", has, "name a larger subnet, or free some of it");
    else
      notes.ok("subnet", has);
  }
}

/// The root and one pool volume, beside what the base AMI brings.
void check_slots(const core::PoolSpec& pool, const core::Observed& observed, const TypeFacts& facts,
                 Notes notes) {
  const auto* base = image_of(observed, pool.launch->base_ami);
  const int needed = 1 + std::max(1, base ? static_cast<int>(base->mappings.size()) : 1);
  for (const std::string& name : existing_types(pool, facts)) {
    const aws::InstanceType* type = nullptr;
    if (facts.types)
      if (const auto found = facts.types->find(name); found != facts.types->end())
        type = &found->second;
    if (!type || !type->max_attachments) {
      notes.unknown("attachments",
                    "how many volumes " + name + " takes is not known; " + std::to_string(needed) +
                        " are needed",
                    "look it up in the EC2 user guide, \"EBS volume limits\"");
      continue;
    }
    const std::string takes = name + " takes " + std::to_string(*type->max_attachments) +
                              " volumes, " + std::to_string(needed) + " are needed";
    if (*type->max_attachments >= needed)
      notes.ok("attachments", takes);
    else
      notes.wrong("attachments", takes, "use a larger type, or a base AMI with fewer volumes");
  }
}

/// Keys that IMDS can show. Source: EC2 user guide; a launch with another key fails as a whole.
bool imds_shows(const std::string& key) {
  const auto allowed = [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("-_+=,.@:").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !key.empty() && key.size() <= 255 && std::all_of(key.begin(), key.end(), allowed) &&
         key != "." && key != ".." && key != "_index";
}

void check_tags(const core::PoolSpec& pool, Notes notes) {
  std::vector<std::string> bad;
  for (const auto& [key, value] : pool.launch->tags)
    if (!imds_shows(key)) bad.push_back("\"" + key + "\"");
  if (bad.empty())
    notes.ok("instance tags", "all keys can be shown by the metadata service");
  else
    notes.wrong("instance tags",
                "the metadata service cannot show the keys " + joined(bad, ", ") +
                    ", which fails every launch",
                "use letters, digits and -_+=,.@: in launch.tags");
}

void check_user_data(const core::PoolSpec& pool, const DoctorFacts& facts, Notes notes) {
  if (!facts.user_data) return;
  const Result<std::string> text = facts.user_data(pool);
  if (text)
    notes.ok("user-data",
             std::to_string(text->size()) + " of " + std::to_string(kMaxUserDataBytes) + " bytes");
  else
    notes.wrong("user-data", text.error().message(), "correct the pool's `launch.user_data`");
}

}  // namespace

void check_pool(const core::PoolSpec& pool, const DoctorFacts& facts,
                const core::Observed& observed, const TypeFacts& types,
                std::vector<Finding>& findings) {
  Notes notes{pool.name, findings};
  if (observed.complete) check_source(pool, facts, observed, notes);
  if (!pool.launch) return check_user_data(pool, facts, notes);
  check_types(pool, observed, types, notes);
  check_offerings(pool, types, notes);
  check_subnets(pool, facts, observed, notes);
  check_slots(pool, observed, types, notes);
  check_tags(pool, notes);
  check_user_data(pool, facts, notes);
}

}  // namespace warmroot::manager
