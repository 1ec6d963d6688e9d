// Attributes of an instance, read and changed one at a time.
#include <algorithm>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_listing.hpp"

namespace warmroot::sim {

namespace {

/// The attributes that a ModifyInstanceAttribute form names: by their own parameter, or by the old
/// form `Attribute` and `Value`.
std::vector<std::pair<std::string, std::string>> named_attributes(const Form& form) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const char* name : {"DisableApiTermination", "DisableApiStop", "UserData", "InstanceType",
                           "InstanceInitiatedShutdownBehavior", "SourceDestCheck", "EbsOptimized"})
    if (form.has(std::string(name) + ".Value"))
      out.emplace_back(name, form.text(std::string(name) + ".Value"));
  if (!form.list("GroupId").empty()) out.emplace_back("GroupId", "");
  if (!form.elements("BlockDeviceMapping").empty()) out.emplace_back("BlockDeviceMapping", "");
  if (std::string old = form.text("Attribute"); !old.empty()) {
    old[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(old[0])));
    if (old != "BlockDeviceMapping" || out.empty()) out.emplace_back(old, form.text("Value"));
  }
  return out;
}

Answer<bool> flag_of(const std::string& value, const std::string& name) {
  if (value == "true") return true;
  if (value == "false") return false;
  return refuse("InvalidParameterValue",
                "Value (" + value + ") for parameter " + name + " is invalid.");
}

Answer<void> modify_disks(Region& region, const Form& form, const std::string& instance_id) {
  for (const auto& element : form.elements("BlockDeviceMapping")) {
    // Left out it becomes true, whatever it was (API reference).
    const auto doomed = form.boolean(element + ".Ebs.DeleteOnTermination", true);
    if (!doomed) return tl::unexpected(doomed.error());
    if (auto done = region.keep_disk(instance_id, form.text(element + ".DeviceName"),
                                     form.text(element + ".Ebs.VolumeId"), *doomed);
        !done)
      return done;
  }
  return {};
}

/// What may only be changed while the instance is stopped.
Answer<void> modify_stopped(InstanceRecord& guest, const std::string& name,
                            const std::string& value) {
  if (guest.state != GuestState::stopped)
    return refuse("IncorrectInstanceState",
                  "The instance '" + guest.id + "' is not in the 'stopped' state.");
  if (name == "InstanceType") {
    if (architecture_of(value) != guest.architecture)
      return refuse("InvalidInstanceAttributeValue",
                    "Invalid value '" + value + "' for InstanceType.");
    guest.type = value;
    return {};
  }
  if (name == "EbsOptimized") {
    guest.ebs_optimized = value == "true";
    return {};
  }
  const auto bytes = base64_decode(value);
  if (!bytes) return refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.");
  guest.user_data = *bytes;
  return {};
}

Answer<void> modify(Region& region, InstanceRecord& guest, const std::string& name,
                    const std::string& value) {
  if (name == "UserData" || name == "InstanceType" || name == "EbsOptimized")
    return modify_stopped(guest, name, value);
  if (name == "InstanceInitiatedShutdownBehavior") {
    if (value != "stop" && value != "terminate")
      return refuse("InvalidParameterValue", "Invalid value '" + value + "' for " + name + ".");
    if (guest.spot())
      return refuse("UnsupportedOperation",
                    "You can't modify the shutdown behavior of a one-time Spot Instance");
    guest.terminate_on_shutdown = value == "terminate";
    return {};
  }
  const auto flag = flag_of(value, name);
  if (!flag) return tl::unexpected(flag.error());
  if (name == "SourceDestCheck") return {};
  if (name != "DisableApiTermination" && name != "DisableApiStop")
    return refuse("InvalidParameterValue",
                  "Value (" + name + ") for parameter attribute is invalid.");
  if (guest.spot() && *flag && !region.knobs.spot_termination_protection)
    return refuse("UnsupportedOperation",
                  "Termination protection is not supported for Spot Instances");
  (name == "DisableApiTermination" ? guest.api_termination_disabled : guest.api_stop_disabled) =
      *flag;
  return {};
}

void write_mapping(const Region& region, const InstanceRecord& guest, XmlWriter& xml) {
  xml.open("blockDeviceMapping");
  for (const auto& id : guest.disks) {
    const Link& link = *region.volume(id)->link;
    xml.open("item");
    xml.text("deviceName", link.device);
    xml.open("ebs");
    xml.text("volumeId", id);
    xml.text("status",
             to_string(link.state == LinkState::busy ? LinkState::detaching : link.state));
    xml.text("attachTime", to_iso8601(link.attach_time));
    xml.flag("deleteOnTermination", link.delete_on_termination);
    xml.close();
    xml.close();
  }
  xml.close();
}

}  // namespace

Answer<void> modify_instance_attribute_action(Region& region, const Form& form, XmlWriter& xml) {
  const std::string id = form.text("InstanceId");
  if (auto checked = check_id(region, id, "InstanceId"); !checked) return checked;
  const auto named = named_attributes(form);
  if (named.empty()) return refuse("InvalidParameterCombination", "No attributes specified.");
  if (named.size() > 1)
    return refuse("InvalidParameterCombination", "Fields for multiple attribute types specified: " +
                                                     named[0].first + ", " + named[1].first);
  InstanceRecord* guest = region.changeable(id);
  if (guest == nullptr) return instance_not_found({id});
  if (guest->state == GuestState::terminated)
    return refuse("IncorrectInstanceState", "The instance '" + id + "' is terminated");
  const auto& [name, value] = named.front();
  const auto done = name == "BlockDeviceMapping" ? modify_disks(region, form, id)
                    : name == "GroupId"          ? Answer<void>{}
                                                 : modify(region, *guest, name, value);
  if (!done) return done;
  xml.flag("return", true);
  return {};
}

Answer<void> describe_instance_attribute_action(Region& region, const Form& form, XmlWriter& xml) {
  const std::string id = form.text("InstanceId"), name = form.text("Attribute");
  if (auto checked = check_id(region, id, "InstanceId"); !checked) return checked;
  const InstanceRecord* guest = region.instance(id);
  if (guest == nullptr) return instance_not_found({id});
  const std::pair<const char*, std::string> values[] = {
      {"disableApiTermination", guest->api_termination_disabled ? "true" : "false"},
      {"disableApiStop", guest->api_stop_disabled ? "true" : "false"},
      {"instanceInitiatedShutdownBehavior", guest->terminate_on_shutdown ? "terminate" : "stop"},
      {"instanceType", guest->type},
      {"rootDeviceName", guest->root_device},
      {"ebsOptimized", guest->ebs_optimized ? "true" : "false"},
      {"sourceDestCheck", "true"},
      {"userData", base64_encode(guest->user_data)}};
  const auto* found = std::find_if(std::begin(values), std::end(values),
                                   [&](const auto& entry) { return entry.first == name; });
  if (found == std::end(values) && name != "blockDeviceMapping")
    return refuse("InvalidParameterValue",
                  "Value (" + name + ") for parameter attribute is invalid. Unknown attribute.");
  xml.text("instanceId", id);
  if (name == "blockDeviceMapping") {
    write_mapping(region, *guest, xml);
  } else if (found->second.empty()) {
    xml.empty(name);
  } else {
    xml.open(name);
    xml.text("value", found->second);
    xml.close();
  }
  return {};
}

}  // namespace warmroot::sim
