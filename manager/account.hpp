// Whose account this is: asked of STS, pinned in the ledger, and asked again whenever the
// credentials are new ones. A manager with another account's credentials would see none of its
// volumes and take them for lost.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "manager/ledger.hpp"

namespace warmroot::manager {

/// The account of the present credentials. Tests and simulations without STS give their own.
using AccountSource = std::function<Result<std::string>()>;

/// Pins the account at the first call, compares it at every later one. Returns a note for people
/// where STS does not answer and the account was pinned before. Errors: misconfigured for another
/// account than the ledger's, and when the account cannot be learned the first time.
Result<std::optional<std::string>> check_account(Ledger& ledger, const AccountSource& source);

}  // namespace warmroot::manager
