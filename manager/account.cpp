// See account.hpp.
#include "manager/account.hpp"

namespace warmroot::manager {

Result<std::optional<std::string>> check_account(Ledger& ledger, const AccountSource& source) {
  const Result<std::string> account = source();
  if (account) {
    TRY(ledger.pin_account(*account));
    return std::optional<std::string>{};
  }
  TRY_ASSIGN(const std::string pinned, ledger.account());
  const std::string why =
      "STS does not say whose credentials these are (" + account.error().message() + ")";
  if (!pinned.empty())
    return std::optional<std::string>(why + "; going on as account " + pinned +
                                      ", to which this state directory belongs");
  return fail(ErrorKind::misconfigured,
              why +
                  "; it has to be reachable once, so that the account can be pinned: check the "
                  "network, or set AWS_ENDPOINT_URL_STS");
}

}  // namespace warmroot::manager
