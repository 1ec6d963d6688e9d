// What sessions of a Linux system read at their start, when nobody has recorded it: by name, from
// what login shells, the dynamic loader, the C library and the usual programs open. A guess about
// systems in general, which the mounted root corrects: what is not there is not read. Pure; called
// by warming, looked up by file_finder.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bootstrap/warm/wanted_file.hpp"

namespace warmroot::warm {

/// Of a user who may log in.
struct LoginUser {
  std::string shell;
  std::string home;
};

/// The likeliest first: what every login reads, then file transfers, then interpreters, package
/// managers and compilers, then all programs and shared libraries. A few thousand names, most of
/// them of places that a system has not, where a lookup ends early.
std::vector<WantedFile> first_run_files();

/// Of these users: shells and what they read at home; last, a conda of theirs.
WantedOfRoot first_run_files_of(std::span<const LoginUser> users);

}  // namespace warmroot::warm
