// Logins that are tried in the mounted volume, as sshd's would be: of the one user who has to get
// in, and of the others, whose trouble is their own. Called by bring_up.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/status.hpp"
#include "bootstrap/stop_request.hpp"

namespace warmroot::bootstrap {

class LoginTrials {
 public:
  LoginTrials(StatusBook& book, const StopRequest& stop) : book_(book), stop_(stop) {}

  /// These are tried from now on; the first of them has to get in.
  void of(std::vector<LoginTrial> logins) { logins_ = std::move(logins); }
  /// Root, or else the first person; nullptr: there is nobody to log in.
  const User* first() const { return logins_.empty() ? nullptr : &logins_.front().user; }

  /// Success where there is nobody to log in. `look` is called several times a second meanwhile,
  /// also while the login waits for a disk and cannot be ended; it may be empty. Errors:
  /// probe_login's; retry_later once a stop is requested.
  Ok try_first(std::chrono::milliseconds limit, const std::function<void()>& look = {});

  /// The others, once sessions are open: what fails for them is theirs (a profile, a shell), and no
  /// reason to keep anybody out or waiting. It is noted. Takes 20 s at most.
  void try_others();

 private:
  Ok probe(const LoginTrial& login, std::chrono::milliseconds limit,
           const std::function<void()>& look = {}) const;
  Result<std::string> probe_first(std::chrono::milliseconds limit,
                                  const std::function<void()>& look) const;
  std::string probe_others() const;
  bool stopped() const { return stop_.reason().has_value(); }

  StatusBook& book_;
  const StopRequest& stop_;
  std::vector<LoginTrial> logins_;
};

}  // namespace warmroot::bootstrap
