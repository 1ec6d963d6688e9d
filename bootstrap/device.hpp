// Which disk is the assignment. Facts about disks come from sysfs (device_io reads them); the
// choice and the parsing of uevents here are pure. The rule: the EBS disk that was not there at
// launch.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/base/units.hpp"

namespace warmroot::bootstrap {

struct DiskFacts {
  std::string name;    ///< "nvme1n1"
  std::string serial;  ///< as sysfs says, blanks removed
  std::string model;   ///< "Amazon Elastic Block Store"; empty where the bus has none
  std::string
      mapped_name;  ///< EC2's device name from the NVMe vendor area, without "/dev/"; may be empty
  std::uint64_t size_bytes = 0;
  bool holds_base = false;        ///< the base system's root, or anything else that is mounted
  bool present_at_start = false;  ///< was there when `up` began

  /// "vol-0123..." from a serial "vol0123..."; nullopt for any other disk.
  std::optional<std::string> volume_id() const;
};

/// "vol-0abc" from "vol0abc" or "vol-0abc"; nullopt when it is neither.
std::optional<std::string> volume_id_of_serial(std::string_view serial);

/// What tells a disk from a later one of its name: Xen gives that one the same number, too.
struct DiskIdentity {
  std::string name;    ///< "nvme1n1"; empty: of no disk
  std::string number;  ///< "259:1"; empty: not known
  std::string
      sequence;  ///< diskseq, which no two disks share; empty: not known, or before Linux 5.15
};

/// A volume of this machine's in a boot before.
struct EarlierVolume {
  std::string volume_id;  ///< empty: not known, of a Xen disk that no manager has named
  std::string disk_name;  ///< of its disk then, "nvme1n1"; empty: not known

  bool is_none() const { return volume_id.empty() && disk_name.empty(); }
};

/// Whether both may be the same one; false where either is none.
bool may_be_same(const EarlierVolume& one, const EarlierVolume& other);
/// Whether a disk can be known as it for certain: by its id, or on Xen by the disk's name.
bool can_be_known(const EarlierVolume& volume);

struct DiskChoice {
  std::optional<DiskFacts> disk;
  std::string waiting_for;  ///< one sentence, when there is no disk yet
  bool held_back = false;   ///< there may be one, which was given away
};

/// Picks the disk. `launch_names` is the launch-time mapping without "/dev/"; `confirmed` the
/// volume that the manager says it attached, which decides whenever it is known. Two candidates
/// without a confirmation are no choice: serving somebody else's volume is worse than waiting.
/// `given_away` (may be none, also where GivenAway has done with it) is attached until its detach
/// is done: without a confirmation nothing is chosen as long as it may be there. `served` (may be
/// none, also where ServedBefore has done with it) is another volume than that: without a
/// confirmation its disk is chosen, whatever else is there, and waited for.
DiskChoice choose_disk(std::span<const DiskFacts> disks, std::span<const std::string> launch_names,
                       const std::optional<std::string>& confirmed,
                       const EarlierVolume& given_away = {}, const EarlierVolume& served = {});

/// A disk that was attached when the kernel began is there so long after `up` began, if it ever
/// will be. Source: the NVMe driver gives up a controller that is not ready after CAP.TO, 127.5 s
/// at most.
inline constexpr Milliseconds kLatestDisk{180'000};

/// A volume that a boot before has given away, for as long as that may matter: until the manager
/// gives it to this machine again, or it is known to be detached. One that no look has found yet
/// may only be late.
class GivenAway {
 public:
  GivenAway() = default;
  explicit GivenAway(EarlierVolume volume) : volume_(std::move(volume)) {}
  /// is_none() where it counts for nothing any more, too.
  const EarlierVolume& volume() const { return volume_; }
  /// For each look at the disks, so long after `up` began: true, once, when it counts for nothing
  /// any more.
  bool is_over(std::span<const DiskFacts> disks, std::span<const std::string> launch_names,
               const std::optional<std::string>& confirmed, Milliseconds since_up);

 private:
  EarlierVolume volume_;
  bool seen_ = false;
};

/// The volume that a boot before served, for as long as that may matter: until the manager names
/// another one, or its disk has not come in time.
class ServedBefore {
 public:
  ServedBefore() = default;
  explicit ServedBefore(EarlierVolume volume) : volume_(std::move(volume)) {}
  /// is_none() where it counts for nothing any more, too.
  const EarlierVolume& volume() const { return volume_; }
  /// As GivenAway's.
  bool is_over(std::span<const DiskFacts> disks, const std::optional<std::string>& confirmed,
               Milliseconds since_up);

 private:
  EarlierVolume volume_;
};

struct Uevent {
  std::string action, subsystem, device_type, device_name;
};

/// Parses a kernel uevent ("add@/devices/...\0ACTION=add\0..."); nullopt for udev's own messages
/// and anything malformed.
std::optional<Uevent> parse_uevent(std::string_view message);

}  // namespace warmroot::bootstrap
