// How an instance is written and filtered; shared by the instance actions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/sim/query_listing.hpp"

namespace warmroot::sim {

/// An instance with the volumes attached to it.
struct InstanceView {
  const InstanceRecord* guest;
  std::vector<const VolumeRecord*> disks;
};

InstanceView instance_view(const Region& region, const InstanceRecord& guest);
/// A RunInstances form. Errors: EC2's for malformed and unmodelled parameters.
Answer<RunInstancesArgs> parse_run(const Region& region, const Form& form);
void write_instance(const Region& region, XmlWriter& xml, const InstanceView& view);
/// The reservation's own members, before its instancesSet.
void write_reservation(const Region& region, XmlWriter& xml, const InstanceRecord& first);
void write_state(XmlWriter& xml, std::string_view element, GuestState state);
FilterValues instance_filter(const Region& region, const InstanceView& view,
                             const std::string& name);

}  // namespace warmroot::sim
