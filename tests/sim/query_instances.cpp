// The instance actions of the Query front.
#include "tests/sim/query_instances.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "tests/sim/query_actions.hpp"

namespace warmroot::sim {

namespace {

/// EC2's check of the host.
std::string system_check(Region& region, const InstanceRecord& guest) {
  if (guest.state != GuestState::running) return "not-applicable";
  if (guest.impaired || region.zone_impaired(guest.zone)) return "impaired";
  return region.hardware().machine_state(guest.id) == MachineState::booting ? "initializing" : "ok";
}

/// EC2's check of the system on it.
std::string instance_check(Region& region, const InstanceRecord& guest) {
  const std::string of_host = system_check(region, guest);
  return guest.unreachable && of_host != "not-applicable" ? "impaired" : of_host;
}

void write_check(XmlWriter& xml, std::string_view element, const std::string& status) {
  xml.open(element);
  xml.text("status", status);
  if (status != "not-applicable") {
    xml.open("details");
    xml.open("item");
    xml.text("name", "reachability");
    xml.text("status", status == "ok" ? "passed" : status == "impaired" ? "failed" : status);
    xml.close();
    xml.close();
  }
  xml.close();
}

/// The values of an instance under a filter's name.
using FilterOf = std::function<FilterValues(const InstanceView&, const std::string&)>;

/// Instances by `InstanceId.N` and filters; refuses unknown ids.
Answer<std::vector<InstanceView>> select(const Region& region, const std::vector<std::string>& ids,
                                         const std::vector<FilterClause>& filters,
                                         const FilterOf& filter_of) {
  std::vector<std::string> unknown;
  for (const auto& id : ids) {
    const InstanceRecord* guest = region.instance(id);
    if (guest == nullptr || !region.visible(guest->launch_time)) unknown.push_back(id);
  }
  if (!unknown.empty()) return instance_not_found(unknown);
  for (const auto& id : ids)
    if (region.zone_impaired(region.instance(id)->zone)) return zone_unreachable(id);
  std::vector<InstanceView> out;
  const auto consider = [&](const InstanceRecord& guest) {
    if (!region.visible(guest.launch_time)) return;
    InstanceView view = instance_view(region, guest);
    if (passes(filters, [&](const std::string& name) { return filter_of(view, name); }))
      out.push_back(std::move(view));
  };
  if (ids.empty())
    for (const auto& [id, guest] : region.instances()) consider(guest);
  else  // by id, as a page's keys ascend
    for (const auto& id : std::set<std::string>(ids.begin(), ids.end()))
      consider(*region.instance(id));
  return out;
}

struct Listing {
  std::vector<InstanceView> items;
  PageRequest page;
};

Answer<Listing> list_instances(const Region& region, const Form& form, const FilterOf& filter_of) {
  const auto ids = parse_ids(region, form, "InstanceId");
  if (!ids) return tl::unexpected(ids.error());
  const InstanceRecord nobody;
  const auto filters = parse_filters(form, [&](const std::string& name) {
    return filter_of({&nobody, {}}, name);
  });
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "instancesSet", *ids);
  if (!page) return tl::unexpected(page.error());
  auto items = select(region, *ids, *filters, filter_of);
  if (!items) return tl::unexpected(items.error());
  return Listing{std::move(*items), *page};
}

std::string key_of(const InstanceView& view) {
  return view.guest->id;
}

}  // namespace

Answer<void> describe_instances_action(Region& region, const Form& form, XmlWriter& xml) {
  auto listing = list_instances(region, form, [&](const auto& view, const std::string& name) {
    return instance_filter(region, view, name);
  });
  if (!listing) return tl::unexpected(listing.error());
  auto [items, next] = cut_page(region, form, listing->page, listing->items, key_of);
  // One reservation for each launch call, as far as the page holds its instances.
  std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
    return a.guest->reservation_id < b.guest->reservation_id;
  });
  xml.open("reservationSet");
  for (std::size_t at = 0; at < items.size();) {
    xml.open("item");
    const InstanceRecord& first = *items[at].guest;
    write_reservation(region, xml, first);
    xml.open("instancesSet");
    for (; at < items.size() && items[at].guest->reservation_id == first.reservation_id; ++at) {
      xml.open("item");
      write_instance(region, xml, items[at]);
      xml.close();
    }
    xml.close();
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

Answer<void> describe_instance_status_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto everything = form.boolean("IncludeAllInstances");
  if (!everything) return tl::unexpected(everything.error());
  constexpr std::size_t kMostIds = 100;
  if (form.elements("InstanceId").size() > kMostIds)
    return refuse("InvalidParameterValue", "At most 100 instance IDs can be given");
  auto listing = list_instances(region, form, [&](const auto& view, const std::string& name) {
    if (name == "system-status.status") return FilterValues({system_check(region, *view.guest)});
    if (name == "instance-status.status")
      return FilterValues({instance_check(region, *view.guest)});
    return instance_filter(region, view, name);
  });
  if (!listing) return tl::unexpected(listing.error());
  if (!*everything)
    std::erase_if(listing->items, [](const InstanceView& view) {
      return view.guest->state != GuestState::running;
    });
  const auto [items, next] = cut_page(region, form, listing->page, listing->items, key_of);
  xml.open("instanceStatusSet");
  for (const auto& view : items) {
    xml.open("item");
    xml.text("instanceId", view.guest->id);
    xml.text("availabilityZone", view.guest->zone);
    write_state(xml, "instanceState", view.guest->state);
    write_check(xml, "systemStatus", system_check(region, *view.guest));
    write_check(xml, "instanceStatus", instance_check(region, *view.guest));
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

namespace {

using Change = Answer<std::vector<StateChange>> (Region::*)(const std::vector<std::string>&);

/// TerminateInstances, StopInstances and StartInstances differ in their rules only.
Answer<void> change_states(Region& region, const Form& form, XmlWriter& xml, Change change) {
  const auto ids = parse_ids(region, form, "InstanceId");
  if (!ids) return tl::unexpected(ids.error());
  for (const char* name : {"Force", "SkipOsShutdown", "Hibernate"})
    if (auto checked = form.boolean(name); !checked) return tl::unexpected(checked.error());
  if (form.text("Hibernate") == "true")
    return refuse("UnsupportedHibernationConfiguration",
                  "The instance is not configured for hibernation");
  const auto changes = (region.*change)(*ids);
  if (!changes) return tl::unexpected(changes.error());
  xml.open("instancesSet");
  for (const auto& done : *changes) {
    xml.open("item");
    xml.text("instanceId", done.instance_id);
    write_state(xml, "currentState", done.after);
    write_state(xml, "previousState", done.before);
    xml.close();
  }
  xml.close();
  return {};
}

}  // namespace

Answer<void> terminate_instances_action(Region& region, const Form& form, XmlWriter& xml) {
  return change_states(region, form, xml, &Region::terminate_instances);
}

Answer<void> stop_instances_action(Region& region, const Form& form, XmlWriter& xml) {
  return change_states(region, form, xml, &Region::stop_instances);
}

Answer<void> start_instances_action(Region& region, const Form& form, XmlWriter& xml) {
  return change_states(region, form, xml, &Region::start_instances);
}

}  // namespace warmroot::sim
