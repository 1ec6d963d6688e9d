// What of a volume another process can take over when the bootstrap that mounted it is killed:
// plain facts, and their document. held_record keeps it in /run. Pure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/device.hpp"
#include "bootstrap/partition.hpp"
#include "bootstrap/preflight.hpp"
#include "bootstrap/stop_request.hpp"
#include "bootstrap/ticket.hpp"

namespace warmroot::bootstrap {

/// Facts of a volume that this instance holds; none of them is undone by forgetting it.
struct HeldVolume {
  std::string disk_node;  ///< "/dev/nvme1n1"; empty before the disk was found
  DiskIdentity disk;      ///< the one that was found, right before it was opened
  std::string partition_node;
  PartitionFacts partition;               ///< the root's
  std::vector<std::string> also_mounted;  ///< what else of it, relative to the root
  std::vector<dev_t> other_devices;       ///< numbers of its partitions among those
  std::string volume_id;
  std::string instance_id;             ///< of this machine
  std::string launch_key;              ///< the key that it was launched with; may be empty
  std::optional<EntryKind> served_by;  ///< absent before one was tried
  /// Sessions may land in it although no login has been tried in this lease.
  bool untried = false;
  /// st_dev of the volume's root once it has been mounted to stay, to know it again; 0: it was not,
  /// or nobody knows.
  dev_t root_device = 0;
  std::string volume_os;      ///< name of the system on it
  std::string root_choice;    ///< which partition is the root, and why
  std::vector<Remark> fstab;  ///< what the volume's own fstab asks for and does not get
};

struct HeldRecord {
  HeldVolume volume;
  std::optional<StopReason> leaving;  ///< why it is being given back; absent while it serves
};

std::string held_document(const HeldRecord& record);
/// Of the root's partition, what nobody needs who does not mount it is left out. Errors: broken
/// when the text is no such document, or not all of one, or has a number that cannot be true.
Result<HeldRecord> parse_held_document(std::string_view text);

}  // namespace warmroot::bootstrap
