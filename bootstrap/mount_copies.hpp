// Copies of the volume's mounts in the mount namespaces of others. A container or a service that
// takes the base's mounts as private (docker's default of a bind of "/", MountFlags=private) keeps
// the disk busy after we have unmounted it, without a file open in it.
#pragma once

#include <sys/types.h>

#include <string>

namespace warmroot::bootstrap {

/// Unmounts what other mount namespaces have of `device`, plainly: where a process uses a copy, it
/// stays. Whoever lives there loses the copy alone. Returns whose copies have gone, one word each,
/// for the timeline; waits two seconds at most.
std::string unmount_copies(dev_t device);

}  // namespace warmroot::bootstrap
