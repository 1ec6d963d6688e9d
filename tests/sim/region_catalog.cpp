// The built-in catalogue: what a region holds before anybody has called it.
#include "tests/sim/region.hpp"

namespace warmroot::sim {

namespace {

SnapshotRecord snapshot_of(const std::string& digit, int size_gib, const std::string& what) {
  SnapshotRecord record;
  record.id = "snap-0" + digit + "00000000000000" + digit;
  record.size_gib = size_gib;
  record.description = what;
  return record;
}

ImageRecord image_of(const std::string& digit, const std::string& name,
                     const SnapshotRecord& root) {
  ImageRecord record;
  record.id = "ami-0" + digit + "00000000000000" + digit;
  record.name = name;
  record.snapshot_id = root.id;
  return record;
}

}  // namespace

Catalog builtin_catalog(const std::string& region, const std::vector<std::string>& zones) {
  Catalog catalog;
  catalog.region = region;
  int number = 0;
  for (const auto& name : zones) {
    ++number;
    // Zone ids are use1-az1 and so on; the short form of a region is its own art, so us-east-1's is
    // used for all.
    catalog.zones.push_back({name, "use1-az" + std::to_string(number), "available"});
    catalog.subnets.push_back(
        {"subnet-0" + std::to_string(number) + "00000000000000" + std::to_string(number),
         "vpc-01000000000000001", name, "10.0." + std::to_string(16 * (number - 1)) + ".0/20"});
  }
  catalog.snapshots = {snapshot_of("1", 8, "session root: Debian with a numerical stack"),
                       snapshot_of("2", 4, "base system"),
                       snapshot_of("3", 8, "session root for arm64"),
                       snapshot_of("4", 8, "root of a public image")};
  catalog.snapshots[3].readable = false;
  catalog.snapshots[3].owner_id = "099720109477";
  catalog.images = {image_of("1", "session-root", catalog.snapshots[0]),
                    image_of("2", "base", catalog.snapshots[1]),
                    image_of("3", "session-root-arm64", catalog.snapshots[2]),
                    image_of("4", "public-image", catalog.snapshots[3])};
  catalog.images[2].architecture = "arm64";
  catalog.images[3].owner_id = "099720109477";
  catalog.key_pairs = {{"operator",
                        "ssh-ed25519 "
                        "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl "
                        "operator"}};
  catalog.security_groups = {"sg-01000000000000001", "sg-02000000000000002"};
  catalog.instance_profiles = {"warmroot-node"};
  return catalog;
}

}  // namespace warmroot::sim
