// Disks as an instance shows them, for tests of which is chosen.
#pragma once

#include <string>

#include "bootstrap/device.hpp"

namespace warmroot::bootstrap {

inline DiskFacts ebs(const std::string& name, const std::string& serial) {
  DiskFacts disk;
  disk.name = name;
  disk.serial = serial;
  disk.model = "Amazon Elastic Block Store";
  disk.size_bytes = 8ull << 30;
  return disk;
}

inline DiskFacts base_disk() {
  DiskFacts disk = ebs("nvme0n1", "vol0aaa");
  disk.holds_base = true;
  return disk;
}

}  // namespace warmroot::bootstrap
