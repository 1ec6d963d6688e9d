// A look at the files that the volume's own sshd, its PAM and its C library read before they let
// anybody in, for the entries `sshd` and `nspawn`, before any of these programs runs.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/in_root.hpp"

namespace warmroot::bootstrap {

/// From a pipe or a device sshd would wait for its other end, while sshd is waited for or people
/// are; an endless one it would read into all memory there is. So each of the files has to be a
/// regular one of at most 4 MiB, or /dev/null, where it is there; what is not there is sshd's to
/// miss. `options` are those that sshd gets (own_unit_options): -f and -o name files, too. Looked
/// at are the account files, what usual modules of PAM read in /etc, sshd's host keys, and its
/// configuration and PAM's with all that they include; not what a module's argument, a person's
/// home or a shell's profile names. Bounded: 1000 files, 2000 names in directories, 8 MiB of
/// configuration. Errors: refused, the first file that is none, or too many, one sentence; errno's.
Ok check_own_sshd_reads(const RootDirectory& root, const std::vector<std::string>& options);

}  // namespace warmroot::bootstrap
