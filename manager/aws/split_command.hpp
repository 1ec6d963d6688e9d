// Splits a command line as the AWS CLI does for credential_process: POSIX quoting, but no shell, no
// variables and no wildcards. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warmroot::aws {

/// nullopt for a quote that is not closed or a backslash at the end.
std::optional<std::vector<std::string>> split_command(std::string_view command);

}  // namespace warmroot::aws
