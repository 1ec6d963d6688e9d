// Small files in the state folder that can be lost without harm: hot lists, block lists.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"

namespace warmroot::manager {

/// Writes beside `path`, then renames: whoever reads sees the old file or the new one. Makes the
/// directory. Errors: the file system's.
Ok replace_file(const std::string& path, std::string_view bytes);

/// Removes the oldest files of the directory that end with `suffix`, until `most` are left beside
/// those whose name before it is one of `kept`.
void forget_oldest(const std::string& directory, std::string_view suffix, std::size_t most,
                   const std::set<std::string>& kept = {});

}  // namespace warmroot::manager
