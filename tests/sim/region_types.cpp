// See the header. Prices and sizes are AWS's public ones of 2025 for Linux in us-east-1; they are
// there to differ from each other, not to be right for ever.
#include "tests/sim/region_types.hpp"

#include <algorithm>
#include <map>

#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

namespace {

constexpr int kMibPerGib = 1024;

TypeFacts fact(const char* name, const char* hypervisor, int vcpus, int memory_gib, int price,
               bool dedicated = false, int attachments = 28) {
  TypeFacts facts;
  facts.name = name;
  facts.architecture = architecture_of(name);
  facts.hypervisor = hypervisor;
  facts.vcpus = vcpus;
  facts.memory_mib = memory_gib * kMibPerGib;
  facts.price = price;
  facts.burstable = facts.name.starts_with("t");
  facts.dedicated_slots = dedicated;
  facts.attachments = attachments;
  return facts;
}

std::vector<TypeFacts> make_catalogue() {
  constexpr bool kDedicated = true;
  constexpr int kXenSlots = 40;  // best effort beyond
  return {
      fact("c4.large", "xen", 2, 4, 10'000, false, kXenSlots),
      fact("c5.large", "nitro", 2, 4, 8'500),
      fact("c5.metal", "", 96, 192, 408'000, kDedicated, 31),
      fact("c6i.large", "nitro", 2, 4, 8'500),
      fact("c7g.large", "nitro", 2, 4, 7'250, kDedicated, 32),
      fact("c7i.large", "nitro", 2, 4, 8'925, kDedicated, 32),
      fact("g4dn.xlarge", "nitro", 4, 16, 52'600),
      fact("g5.12xlarge", "nitro", 48, 192, 567'200),
      fact("g5.24xlarge", "nitro", 96, 384, 814'400),
      fact("g5.xlarge", "nitro", 4, 16, 100'600),
      fact("g6.xlarge", "nitro", 4, 16, 80'480),
      fact("m4.large", "xen", 2, 8, 10'000, false, kXenSlots),
      fact("m5.large", "nitro", 2, 8, 9'600),
      fact("m6g.large", "nitro", 2, 8, 7'700),
      fact("m6i.4xlarge", "nitro", 16, 64, 76'800),
      fact("m6i.large", "nitro", 2, 8, 9'600),
      fact("m7g.large", "nitro", 2, 8, 8'160, kDedicated, 32),
      fact("m7i.large", "nitro", 2, 8, 10'080, kDedicated, 32),
      fact("p3.16xlarge", "xen", 64, 488, 2'448'000, false, kXenSlots),
      fact("p3.2xlarge", "xen", 8, 61, 306'000, false, kXenSlots),
      fact("p4d.24xlarge", "nitro", 96, 1152, 3'277'260),
      fact("p5.48xlarge", "nitro", 192, 2048, 9'832'000),
      fact("r6i.xlarge", "nitro", 4, 32, 25'200),
      fact("t3.medium", "nitro", 2, 4, 4'160),
      fact("t4g.medium", "nitro", 2, 4, 3'360),
  };
}

/// vCPUs by the size word, as most families have them.
int vcpus_of_size(const std::string& size) {
  static const std::map<std::string, int> kSizes = {{"nano", 2},   {"micro", 2}, {"small", 2},
                                                    {"medium", 2}, {"large", 2}, {"xlarge", 4},
                                                    {"metal", 96}};
  if (const auto found = kSizes.find(size); found != kSizes.end()) return found->second;
  const int factor = std::atoi(size.c_str());
  return factor > 0 ? 4 * factor : 96;
}

}  // namespace

const std::vector<TypeFacts>& type_catalogue() {
  static const std::vector<TypeFacts> kCatalogue = make_catalogue();
  return kCatalogue;
}

bool in_catalogue(const std::string& name) {
  return std::any_of(type_catalogue().begin(), type_catalogue().end(),
                     [&](const TypeFacts& facts) { return facts.name == name; });
}

std::optional<TypeFacts> type_facts(const std::string& name) {
  for (const auto& facts : type_catalogue())
    if (facts.name == name) return facts;
  const std::string architecture = architecture_of(name);
  if (architecture.empty()) return std::nullopt;
  static const std::vector<std::string> kXenFamilies = {"c3.", "c4.", "i2.", "m3.", "m4.", "p2.",
                                                        "p3.", "r3.", "r4.", "t1.", "t2.", "x1."};
  const bool xen = std::any_of(kXenFamilies.begin(), kXenFamilies.end(),
                               [&](const std::string& family) { return name.starts_with(family); });
  const std::string size = name.substr(name.find('.') + 1);
  constexpr int kPricePerVcpu = 5'000, kMibPerVcpu = 4 * kMibPerGib;
  TypeFacts facts = fact(name.c_str(),
                         size.starts_with("metal") ? ""
                         : xen                     ? "xen"
                                                   : "nitro",
                         vcpus_of_size(size), 0, 0);
  facts.memory_mib = facts.vcpus * kMibPerVcpu;
  facts.price = facts.vcpus * kPricePerVcpu;
  return facts;
}

std::string quota_class(const std::string& name, bool spot) {
  if (spot && name.starts_with("p5")) return "p5";
  const std::string family = name.substr(0, name.find_first_of("0123456789"));
  for (const char* other : {"p", "f", "x", "inf", "trn", "dl", "hpc"})
    if (family == other) return other;
  if (family == "g" || family == "vt") return "g";
  return "standard";
}

bool offering_hole(const std::string& name, std::size_t zone_index) {
  if (name == "p4d.24xlarge") return zone_index != 0;
  if (name == "p5.48xlarge") return zone_index != 1;
  if (name == "c4.large" || name == "m4.large") return zone_index >= 2;
  return false;
}

}  // namespace warmroot::sim
