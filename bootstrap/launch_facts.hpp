// What does not change after an instance's launch, from the texts of the metadata service, which on
// a node of the wrong kind may be anybody's: of these only what can be true is believed. Pure;
// asked for by imds, used by bring_up.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

struct LaunchFacts {
  std::string instance_id;
  std::string zone;
  std::vector<std::string> device_names;  ///< of the launch-time mapping, without "/dev/"
  std::string public_key;  ///< the launch key, one authorized_keys line; may be empty
};

/// Entries of a launch's block device mapping: more than any instance has attachments.
inline constexpr std::size_t kMostDevices = 128;

/// The lines of a listing that can be names of it, kMostDevices of them at most.
std::vector<std::string> mapping_entries(std::string_view listing);

/// Adds the mapping's device, e.g. "/dev/sdf" or "xvda"; what can be no device is left out: no disk
/// has its name.
void add_device(LaunchFacts& facts, std::string_view device);

/// "m7i.large"; empty where the text can be no instance type.
std::string instance_type_of(std::string_view text);

/// Sets id, zone and the first line of the key; a key that no authorized_keys line can be is none.
/// Errors: refused for an id or a zone that is not made of letters, digits and '-', gone without an
/// id.
Ok set_identity(LaunchFacts& facts, std::string_view instance_id, std::string_view zone,
                std::string_view public_key);

}  // namespace warmroot::bootstrap
