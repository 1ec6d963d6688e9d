// Which files the volume's own sshd and its PAM read because other files name them: Include lines
// and some keywords of sshd_config, and what files of pam.d include. Pure; own_sshd_reads looks at
// the files. The texts are the volume's and may be hostile: where it is not sure what a line means,
// a file more is named rather than one less.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace warmroot::bootstrap {

/// Of one text at most one more is named, by which it is known that there are too many.
inline constexpr std::size_t kMostNamedFiles = 1000;

struct NamedFiles {
  std::vector<std::string> included;  ///< more of the configuration; patterns of glob(7)
  std::vector<std::string> read;
};

/// Of an sshd_config(5), all paths absolute. What stands in a Match block counts, too. Words longer
/// than a path can be are left out.
NamedFiles files_of_sshd_config(std::string_view text);

/// Of a file in pam.d(5): for each file that it includes, the places where that may be.
std::vector<std::string> files_of_pam(std::string_view text);
/// Where PAM looks for a file that is named so. Source: Linux-PAM, libpam/pam_handlers.c.
std::vector<std::string> places_of_pam_file(const std::string& name);

/// Whether a part of a path, between slashes, is to be compared with names.
bool is_glob(std::string_view part);
/// Whether glob(3) may take the name for the part: from the first bracket or backslash on all names
/// do. In time that grows with the product of both lengths.
bool glob_may_match(std::string_view part, std::string_view name);

}  // namespace warmroot::bootstrap
