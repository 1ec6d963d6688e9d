// Instance types: a small catalogue of real ones with EC2's facts, and facts derived from the name
// for every other type of EC2's form, so that a test may launch what it likes. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace warmroot::sim {

struct TypeFacts {
  std::string name;
  std::string architecture;  ///< x86_64 | arm64
  std::string hypervisor;    ///< nitro | xen; empty for metal
  int vcpus = 2;
  int memory_mib = 8192;
  int price = 0;  ///< on demand, Linux, us-east-1; hundred-thousandths of a dollar an hour
  bool burstable = false;
  bool dedicated_slots = false;  ///< attachment limit of its own (gen 7), else shared with cards
  int attachments = 28;          ///< maximumEbsAttachments, the root included
};

/// The catalogue, by name.
const std::vector<TypeFacts>& type_catalogue();

/// Facts of a type: the catalogue's, else derived from family and size. nullopt when the text is no
/// instance type.
std::optional<TypeFacts> type_facts(const std::string& name);

/// Whether EC2 says that such a type exists, which Describe calls ask; derived types do not count.
bool in_catalogue(const std::string& name);

/// The vCPU quota that a type counts against: standard, g, p, f, x, inf, trn, dl or hpc. The same
/// names hold for spot and on-demand quotas, which are counted apart.
std::string quota_class(const std::string& name, bool spot);

/// The built-in holes: the zone (0 is the region's first) does not offer the type.
bool offering_hole(const std::string& name, std::size_t zone_index);

}  // namespace warmroot::sim
