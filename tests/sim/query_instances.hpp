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
/// The launch template that `LaunchTemplateId` or `LaunchTemplateName` under `prefix` name, and its
/// version (a number, $Latest or $Default; empty is $Default). Errors: EC2's.
struct NamedTemplate {
  const TemplateRecord* record;
  const TemplateVersion* version;
};
Answer<NamedTemplate> find_template(const Region& region, const Form& form,
                                    const std::string& prefix, const std::string& version);
/// Launch parameters over a template's: block devices by their name, tags by their resource type,
/// everything else whole.
std::map<std::string, std::string> over_template(const std::map<std::string, std::string>& data,
                                                 const std::map<std::string, std::string>& own);
/// A RunInstances form. Errors: EC2's for malformed and unmodelled parameters.
Answer<RunInstancesArgs> parse_run(const Region& region, const Form& form);
void write_instance(const Region& region, XmlWriter& xml, const InstanceView& view);
/// The reservation's own members, before its instancesSet.
void write_reservation(const Region& region, XmlWriter& xml, const InstanceRecord& first);
void write_state(XmlWriter& xml, std::string_view element, GuestState state);
FilterValues instance_filter(const Region& region, const InstanceView& view,
                             const std::string& name);

}  // namespace warmroot::sim
