// The effects behind accounts: reads both systems' files, and writes the base's under the lock that
// useradd takes.
#pragma once

#include <string>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/in_root.hpp"

namespace warmroot::bootstrap {

/// Gives the base what it lacks, but no keys yet.
Result<AccountEdit> import_accounts(const RootDirectory& volume);

/// Takes imported accounts and keys away again. Succeeds when there is nothing to take away.
Ok remove_imported_accounts(const AccountEdit& edit);

/// What an earlier process imported, perhaps of an earlier boot; empty when it imported nothing.
AccountEdit recorded_accounts();

/// Whose logins are tried, at most ten: first the one who has to succeed (root, or where root has
/// no login shell the base's first person), then the volume's people, then the base's.
std::vector<LoginTrial> probe_logins(const AccountEdit& edit);

}  // namespace warmroot::bootstrap
