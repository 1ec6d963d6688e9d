// Everything that `warmroot-sim serve` can be told, and reading its catalogue file. Filled by
// main.cpp.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "tests/sim/region_model.hpp"
#include "tests/sim/volume_model.hpp"

namespace warmroot::sim {

struct Options {
  int port = 0;
  std::string directory = "build/region";
  std::string region = "us-east-1";
  std::vector<std::string> zones = {"us-east-1a", "us-east-1b"};
  std::string access_key = "AKIDEXAMPLE";
  std::string secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
  std::string catalog_file;  ///< empty: the built-in catalogue
  std::string kernel = "build/images/vmlinuz";
  std::uint16_t manager_port = 0;  ///< see MachineOptions
  bool no_machines = false;
  std::uint64_t seed = 1;
  double throttle_scale = 0;
  Milliseconds credential_life{3'600'000};  ///< of temporary credentials
  int page_cap = 1000;
  RegionTimes times;
  VolumeProfile profile;
};

/// Reads a catalogue, TOML or JSON (a file that begins with a brace): lists `snapshots` {id,
/// size_gib, image_file, description, readable}, `images` {id, name, architecture, root_device,
/// snapshot, owner_id}, `subnets` {id, zone, vpc, cidr}, `key_pairs` {name, public_key_file |
/// public_key}, `security_groups`, `instance_profiles`. What it leaves out is as in the built-in
/// catalogue, but for snapshots and images. Errors: misconfigured, in one sentence that names the
/// file.
Result<Catalog> load_catalog(const Options& options);

}  // namespace warmroot::sim
