// The EC2 actions of the simulated region: each reads a form, calls the region and writes its
// answer's members. Called by the Query front, which has checked the parameters' names and writes
// the frame around.
#pragma once

#include "tests/sim/query_form.hpp"
#include "tests/sim/region.hpp"
#include "tests/sim/xml_writer.hpp"

namespace warmroot::sim {

using Action = Answer<void> (*)(Region&, const Form&, XmlWriter&);

Answer<void> create_volume_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_volumes_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> attach_volume_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> detach_volume_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> delete_volume_action(Region& region, const Form& form, XmlWriter& xml);

/// The part of a launch that a dry run sees: names and parameters, not capacity.
Answer<void> check_run_instances(Region& region, const Form& form);
Answer<void> run_instances_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_instances_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_instance_status_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> terminate_instances_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> stop_instances_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> start_instances_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> modify_instance_attribute_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_instance_attribute_action(Region& region, const Form& form, XmlWriter& xml);

Answer<void> create_template_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> create_template_version_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_templates_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_template_versions_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> delete_template_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> create_fleet_action(Region& region, const Form& form, XmlWriter& xml);

Answer<void> copy_volumes_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_volume_status_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> create_snapshot_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> delete_snapshot_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> enable_fast_restores_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> disable_fast_restores_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_fast_restores_action(Region& region, const Form& form, XmlWriter& xml);

Answer<void> describe_instance_types_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_type_offerings_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> get_placement_scores_action(Region& region, const Form& form, XmlWriter& xml);

Answer<void> describe_snapshots_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_images_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_zones_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_subnets_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_spot_prices_action(Region& region, const Form& form, XmlWriter& xml);

Answer<void> create_tags_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> delete_tags_action(Region& region, const Form& form, XmlWriter& xml);
Answer<void> describe_tags_action(Region& region, const Form& form, XmlWriter& xml);

/// The zone that `AvailabilityZone` or `AvailabilityZoneId` names under `prefix`; empty when
/// neither is given. Errors: both, or an unknown zone id.
Answer<std::string> parse_zone(const Region& region, const Form& form, const std::string& prefix,
                               bool check_name = false);
std::string zone_id_of(const Region& region, const std::string& zone);

}  // namespace warmroot::sim
