#include "bootstrap/login_trials.hpp"

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "bootstrap/paths.hpp"
#include "bootstrap/sshd.hpp"

namespace warmroot::bootstrap {

using std::chrono::milliseconds;

/// All the others together.
static constexpr milliseconds kOthersLimit{std::chrono::seconds(20)};

Ok LoginTrials::probe(const LoginTrial& login, milliseconds limit,
                      const std::function<void()>& look) const {
  TRY(stop_.check());
  return probe_login(kVolumePoint, login.user, login.groups, limit, [&] {
    if (look) look();
    return stopped();
  });
}

Result<std::string> LoginTrials::probe_first(milliseconds limit,
                                             const std::function<void()>& look) const {
  if (logins_.empty()) return std::string("there is nobody to log in");
  const Ok done = probe(logins_.front(), limit, look);
  TRY(stop_.check());
  TRY(done);
  return logins_.front().user.name;
}

Ok LoginTrials::try_first(milliseconds limit, const std::function<void()>& look) {
  TRY(book_.timed("probe login", [&] { return probe_first(limit, look); }));
  return {};
}

std::string LoginTrials::probe_others() const {
  std::string names, notes;
  const std::int64_t deadline_ms = book_.now_ms() + kOthersLimit.count();
  for (std::size_t i = 1; i < logins_.size() && !stopped(); ++i) {
    const std::int64_t left = deadline_ms - book_.now_ms();
    if (left <= 0) {
      notes += "; no time left for the other users";
      break;
    }
    if (const Ok done = probe(logins_[i], milliseconds(left)))
      names += (names.empty() ? "" : ", ") + logins_[i].user.name;
    else
      notes += "; " + done.error().message();
  }
  return names + notes;
}

void LoginTrials::try_others() {
  if (logins_.size() < 2) return;
  std::ignore =
      book_.timed("probe logins of others", [&] { return Result<std::string>(probe_others()); });
}

}  // namespace warmroot::bootstrap
