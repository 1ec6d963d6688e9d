// What of a volume the kernel itself uses, for nobody whom a signal would end: swap files and loop
// devices that sessions have made of its files. Called by the release before each attempt to
// unmount.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace warmroot::bootstrap {

/// The files among a /proc/swaps text. Pure. Source: proc(5); blanks in names are octal escapes.
std::vector<std::string> swap_files(std::string_view swaps);

/// Swaps off what lies on `device` (the volume's root), on what else is mounted at `places` in it,
/// or anywhere below its place, which may take as long as reading it back; and lets go of loop
/// devices over files there: at once, or with their last user. Returns what those were, in words,
/// for the timeline; nothing where there were none.
std::vector<std::string> end_kernel_users(dev_t device, const std::vector<std::string>& places);

}  // namespace warmroot::bootstrap
