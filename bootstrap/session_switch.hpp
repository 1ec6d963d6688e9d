// Leads new sessions into a mounted volume by its entry, and back to the base, where a banner says
// why; whoever is in the volume stays. Called by bring_up until a login has worked; what serves
// after that the daemon looks after, by check_still_serving.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/status.hpp"
#include "bootstrap/stop_request.hpp"

namespace warmroot::bootstrap {

class SessionSwitch {
 public:
  SessionSwitch(std::string pool, Assignment& assignment, EntryInput input, StatusBook& book,
                StopRequest& stop)
      : pool_(std::move(pool)),
        assignment_(assignment),
        input_(std::move(input)),
        book_(book),
        stop_(stop) {}

  /// New sessions land in the volume from now on, without a banner. Returns a detail for the
  /// timeline. Errors: Entry::open's; retry_later once a stop is requested.
  Result<std::string> lead_in();

  /// They land on the base from now on, and the banner says why.
  void lead_back(const std::string& why);

  /// The same, because the login of `user` takes longer than that; a step of the timeline. Returns
  /// what the banner says, one sentence.
  std::string lead_back_while_late(const std::string& user, std::chrono::milliseconds late);

  /// The same, because a stop for this reason came before a login has worked. The release has to
  /// wait for that to end, and leads nobody back before.
  void lead_back_at_stop(const std::string& sentence);

  /// As lead_in, for after lead_back; a step of the timeline. What held the login up may hold up
  /// the reading of people's keys, too, and is waited for, until the limit has passed or a stop is
  /// requested. Where it fails they are led half-way at most, and lead_back takes that back.
  Ok lead_in_again(std::chrono::milliseconds limit);

 private:
  void lead_back_in_step(const std::string& why);
  Result<std::string> lead_in_until(std::int64_t end_ms);

  const std::string pool_;
  Assignment& assignment_;
  const EntryInput input_;
  StatusBook& book_;
  StopRequest& stop_;
};

/// Whether sessions still work, or would, where the entry was closed: the volume is mounted, and
/// nothing else in its place, the entry lets them in. Cheap, reads nothing from the volume.
/// `root_device` is Assignment's; 0: any. Errors: refused, one sentence.
Ok check_still_serving(Entry& entry, dev_t root_device);

}  // namespace warmroot::bootstrap
