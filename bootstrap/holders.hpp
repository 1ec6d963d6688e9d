// Who holds the volume's file system: processes with their root, working directory, program or an
// open file on it or on an overlay of it, and containers that were started in the volume.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {

struct Holder {
  pid_t pid = 0;
  std::string command;
  bool stuck = false;  ///< waits in the kernel, mostly for a disk: no signal ends it before that
};

struct HolderSearch {
  std::vector<Holder> found;
  bool complete = true;  ///< false: it was cut short, and there may be more
  bool none() const { return complete && found.empty(); }
};

/// Every process that holds something on `device`, which is mounted at kVolumePoint, or in what is
/// mounted inside it; in any mount namespace. This process and pid 1 are left out. Asks no file
/// system but proc about the processes of this mount namespace. A program whose root stands in the
/// volume's place in its own namespace, whatever is mounted there, was begun in the volume; one of
/// the base that has a copy of the mount in its namespace, and uses none of it, is none of them.
///
/// Each gets the signals at the moment it is found, and nobody else who has its number by then.
/// `over` is asked before each step, and true cuts the search short. What is quick to see comes
/// first: roots, directories and programs of all processes, then their first few thousand
/// descriptors, then the rest; so that nobody hides behind one with a million of them.
HolderSearch search_holders(dev_t device, const Cancelled& over,
                            const std::vector<int>& signals = {});

/// The same search, however long it takes.
std::vector<Holder> holders_of(dev_t device);

/// One round of killing, for which what has its root, directory or program there is stopped first:
/// programs that start each other anew have no room for it then. Returns who was there; a killed
/// one is there until it has ended.
HolderSearch kill_holders(dev_t device, const Cancelled& over);

/// "bash (812), cp (840, waits in the kernel) and 3 more"; empty for nobody.
std::string holders_text(const std::vector<Holder>& holders);

/// Writes to the terminals of these processes' sessions, once to each, in a container to the
/// container's. One that is full or gone, or does not answer, keeps nobody waiting for longer than
/// a second. Returns how many took it.
std::size_t warn_terminals(const std::vector<Holder>& holders, const std::string& message);

}  // namespace warmroot::bootstrap
