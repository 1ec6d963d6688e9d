#include "bootstrap/session_switch.hpp"

#include <tuple>

#include "bootstrap/sshd.hpp"
#include "bootstrap/volume_root.hpp"

namespace warmroot::bootstrap {

/// An attempt takes a second by itself while people's keys are being read.
static constexpr std::chrono::milliseconds kAgain{1000};

Result<std::string> SessionSwitch::lead_in() {
  TRY(stop_.check());
  TRY_ASSIGN(const std::string how, assignment_.entry->open(input_));
  TRY(set_banner(pool_, {}));
  return "new sessions land in " + assignment_.volume_os + how;
}

void SessionSwitch::lead_back(const std::string& why) {
  std::ignore = set_banner(pool_, "Why: " + why);
  std::ignore = assignment_.entry->close();
  book_.update([](Status& status) {
    status.mounted_to_ready_ms.reset();
    status.entry.clear();
  });
}

std::string SessionSwitch::lead_back_while_late(const std::string& user,
                                                std::chrono::milliseconds late) {
  std::string why = "the probe login of " + user + " takes longer than " +
                    std::to_string(late.count() / 1000) +
                    " s, the volume may not answer; new sessions land there again once it has "
                    "worked";
  lead_back_in_step(why);
  return why;
}

void SessionSwitch::lead_back_at_stop(const std::string& sentence) {
  lead_back_in_step("the volume is given back before a login has worked in it: " + sentence);
}

void SessionSwitch::lead_back_in_step(const std::string& why) {
  std::ignore = book_.timed("lead sessions back", [&]() -> Result<std::string> {
    lead_back(why);
    return why;
  });
}

Ok SessionSwitch::lead_in_again(std::chrono::milliseconds limit) {
  const std::int64_t end_ms = book_.now_ms() + limit.count();
  TRY(book_.timed("switch sessions", [&] { return lead_in_until(end_ms); }));
  book_.update(
      [&](Status& status) { status.entry = assignment_.entry->describe() + assignment_.instead; });
  return {};
}

Result<std::string> SessionSwitch::lead_in_until(std::int64_t end_ms) {
  for (;;) {
    auto done = lead_in();
    if (done || done.error().kind != ErrorKind::retry_later || book_.now_ms() >= end_ms ||
        stop_.wait_for(kAgain))
      return done;
    std::ignore = assignment_.entry->close();  // it may be open half-way
  }
}

Ok check_still_serving(Entry& entry, dev_t root_device) {
  // First: an entry may start an sshd anew in what is mounted.
  const auto mounted = mounted_root(root_device);
  if (!mounted) return fail(ErrorKind::refused, "somebody unmounted the volume");
  // Sessions would land in it, and an entry would run its sshd.
  if (root_device != 0 && *mounted != root_device)
    return fail(ErrorKind::refused, "something else is mounted in the volume's place");
  return entry.check();
}

}  // namespace warmroot::bootstrap
