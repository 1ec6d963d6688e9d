// A login that is late behind the switch, as on a disk that stalls: new sessions land on the base
// until it has ended, and nobody is ended for it. One that never ends is one that fails.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bootstrap/held_record.hpp"
#include "tests/boot_proven.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// For tests that do not wait for kLateLogin.
constexpr std::chrono::milliseconds kLateHere{1000};
/// Where a process that is killed leaves whom it has let in.
constexpr char kPerson[] = "/run/person";

/// The shell `stall` waits for that.
void let_login_go_on() {
  EXPECT_TRUE(write_in_place(inside("tmp/go"), ""));
}

/// Also of a process that is nobody's child here.
bool is_there(pid_t process) {
  return !link_text("/proc/" + std::to_string(process) + "/root").empty();
}

class BootLateLogin : public BootProven {
 protected:
  /// A proven volume whose login ends with this shell from now on, and is late after a second.
  /// People come in as soon as they can.
  void make_late_volume(const std::string& with) {
    ASSERT_NO_FATAL_FAILURE(make_proven_volume());
    break_shell(with);
    input_.late_login = kLateHere;
    input_.enter_stage = [this](Stage stage, const std::string&) {
      if (stage == Stage::ready) person_ = come_in();
    };
  }

  void TearDown() override {
    leave();
    // Of a test that has failed before it came to that.
    if (const auto person = read_file(kPerson, 64); person && is_there(std::stoi(*person)))
      ::kill(std::stoi(*person), SIGKILL);
    BootProven::TearDown();
  }

  /// Whoever came in is there still.
  bool stays() {
    if (person_ != 0 && ::waitpid(person_, nullptr, WNOHANG) != 0) person_ = 0;
    return person_ != 0;
  }

  void leave() {
    if (person_ == 0) return;
    ::kill(person_, SIGKILL);
    ::waitpid(person_, nullptr, 0);
    person_ = 0;
  }

  /// Of the steps that lead sessions, or say whether they may be led.
  static std::vector<std::string> leading_steps(const StatusBook& book) {
    std::vector<std::string> names;
    const auto steps = book.snapshot().steps;
    for (const TimedStep& step : steps)
      if (step.name == "switch sessions" || step.name == "probe login" ||
          step.name == "lead sessions back")
        names.push_back(step.name);
    return names;
  }

  static std::string banner() { return read_file(kBannerFile, 65536).value_or(""); }

  pid_t person_ = 0;  ///< who came in
};

TEST_F(BootLateLogin, a_disk_that_stalls_behind_ready_ends_nobody_and_is_served_once_it_answers) {
  ASSERT_NO_FATAL_FAILURE(make_late_volume("stall"));
  Status meanwhile;
  std::string why, shown, os;
  bool untried = false;
  int worked = 0;
  input_.login_is_late = [&](const std::string& said) {
    why = said;
    shown = banner();
    os = session_os();
    meanwhile = book_.snapshot();
    const auto held = held_record();
    untried = held && held->volume.untried;
    EXPECT_EQ(worked, 0) << "nobody else leads sessions meanwhile";
    let_login_go_on();
  };
  input_.login_worked = [&] {
    ++worked;
    EXPECT_EQ(session_os(), "Test Volume 1");
  };
  input_.leads_back = [] { ADD_FAILURE() << "it has not failed"; };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  EXPECT_TRUE(stays());
  leave();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_THAT(why, HasSubstr("the probe login of root takes longer than 1 s"));
  EXPECT_THAT(shown, AllOf(HasSubstr("lands on the base system"), HasSubstr("Why: " + why)));
  EXPECT_NE(os, "Test Volume 1");
  EXPECT_EQ(meanwhile.entry, "");
  EXPECT_FALSE(meanwhile.mounted_to_ready_ms);
  EXPECT_TRUE(untried) << "the next one tries it before anybody is let in";

  EXPECT_EQ(worked, 1);
  EXPECT_EQ(session_os(), "Test Volume 1");
  EXPECT_EQ(banner(), "");
  EXPECT_THAT(leading_steps(book_), ElementsAre("switch sessions", "lead sessions back",
                                                "probe login", "switch sessions"));
  EXPECT_NE(book_.snapshot().entry, "");
  EXPECT_TRUE(book_.snapshot().mounted_to_ready_ms);
  const auto held = held_record();
  EXPECT_TRUE(held && !held->volume.untried);
  EXPECT_EQ(::access(inside(kVolumeProof).c_str(), F_OK), -1) << "it was no quick login";
  ASSERT_TRUE(give_back(assignment_, book_));

  input_.enter_stage = [](Stage, const std::string&) {};
  input_.login_is_late = [](const std::string&) {};
  input_.login_worked = [] {};
  input_.late_login = kLateLogin;
  mend_shell();
  EXPECT_TRUE(tries_first());
  EXPECT_FALSE(tries_first());
}

TEST_F(BootLateLogin, one_that_hangs_is_late_first_and_ends_as_one_that_fails_only_then) {
  ASSERT_NO_FATAL_FAILURE(make_late_volume("hang"));
  input_.login_limit = std::chrono::seconds(4);
  std::vector<std::string> order;
  const auto comes_to = [&](const std::string& what) {
    EXPECT_TRUE(stays()) << what;
    order.push_back(what + " " + link_text(kSessionRoot));
  };
  input_.login_is_late = [&](const std::string&) { comes_to("late"); };
  input_.login_worked = [] { ADD_FAILURE() << "it has not"; };
  input_.leads_back = [&] { comes_to("failed"); };
  const std::int64_t started = boottime_ms();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  EXPECT_LT(boottime_ms() - started, kWithinBoundMs);
  ASSERT_NE(person_, 0) << "else sessions were not switched first";
  EXPECT_FALSE(stays()) << "whoever came in keeps the volume from being unmounted";
  ASSERT_FALSE(done);
  EXPECT_THAT(
      done.error().message(),
      AllOf(HasSubstr("the probe login of root took longer than 4 s"), Not(HasSubstr("undoing"))));
  EXPECT_THAT(order, ElementsAre("late /", "failed /"));
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(banner(), AllOf(HasSubstr("Why: the probe login of root took longer than 4 s"),
                              Not(HasSubstr("once it has worked"))));
  EXPECT_THAT(leading_steps(book_),
              ElementsAre("switch sessions", "lead sessions back", "probe login"));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_FALSE(held_record());
  EXPECT_EQ(book_.snapshot().entry, "");
}

TEST_F(BootLateLogin, one_that_fails_is_not_late) {
  ASSERT_NO_FATAL_FAILURE(make_late_volume("angry"));
  input_.late_login = kLateLogin;
  input_.login_is_late = [](const std::string&) { ADD_FAILURE() << "it was broken at once"; };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_NE(person_, 0) << "else sessions were not switched first";
  EXPECT_FALSE(stays());
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("profile is broken"));
  EXPECT_THAT(leading_steps(book_), ElementsAre("switch sessions", "probe login"));
}

TEST_F(BootLateLogin, a_stop_meanwhile_is_a_release_and_no_failure) {
  ASSERT_NO_FATAL_FAILURE(make_late_volume("hang"));
  input_.login_is_late = [&](const std::string&) {
    stop_.request({"spot-notice", "EC2 takes this spot instance back"});
  };
  input_.login_worked = [] { ADD_FAILURE() << "it has not"; };
  input_.leads_back = [] { ADD_FAILURE() << "nor has it failed"; };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  EXPECT_TRUE(stays()) << "people are warned by a release";
  leave();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_TRUE(assignment_.mounted);
  const auto steps = book_.snapshot().steps;
  EXPECT_TRUE(std::none_of(steps.begin(), steps.end(), [](const TimedStep& step) {
    return step.name == "preflight";
  })) << "it looks at the volume, which may not answer, and the release waits for it";
  ASSERT_TRUE(give_back(assignment_, book_));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  mount_volume();
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "clean i-1");
  EXPECT_EQ(::access(inside(kVolumeProof).c_str(), F_OK), -1);
}

/// The release leads them back only when the login has ended, which a disk that hangs holds up.
TEST_F(BootLateLogin, a_stop_before_it_is_late_leads_new_sessions_back_at_once) {
  ASSERT_NO_FATAL_FAILURE(make_late_volume("hang"));
  input_.late_login = kLateLogin;
  std::thread stopper;
  input_.enter_stage = [&](Stage stage, const std::string&) {
    if (stage != Stage::ready) return;
    person_ = come_in();
    stopper = std::thread([&] {
      ::poll(nullptr, 0, 500);  // the login has begun
      stop_.request({"spot-notice", "EC2 takes this spot instance back"});
    });
  };
  input_.login_is_late = [](const std::string&) { ADD_FAILURE() << "it is not late yet"; };
  input_.login_worked = [] { ADD_FAILURE() << "it has not"; };
  input_.leads_back = [] { ADD_FAILURE() << "nor has it failed"; };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  if (stopper.joinable()) stopper.join();
  EXPECT_TRUE(stays()) << "people are warned by a release";
  leave();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(banner(), HasSubstr("Why: the volume is given back before a login has worked in it: "
                                  "EC2 takes this spot instance back"));
  EXPECT_THAT(leading_steps(book_),
              ElementsAre("switch sessions", "lead sessions back", "probe login"));
  EXPECT_EQ(book_.snapshot().entry, "");
  EXPECT_TRUE(assignment_.mounted);
  ASSERT_TRUE(give_back(assignment_, book_));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
}

TEST_F(BootLateLogin, killed_at_any_of_its_steps_the_next_one_serves_and_ends_nobody) {
  struct Kill {
    const char* behind;  ///< this step, the last of its name
    bool leads_in;       ///< new sessions, by then
    bool is_untried;
  };
  constexpr Kill kKills[] = {{"lead sessions back", false, true},
                             {"probe login", false, true},
                             {"switch sessions", true, false}};
  ASSERT_NO_FATAL_FAILURE(make_proven_volume());
  std::size_t switched = 0;
  {
    Assignment assignment;
    StatusBook book("");
    ASSERT_TRUE(bring_up(input_, assignment, book, stop_));
    switched = place(book, "switch sessions") + 1;
    ASSERT_TRUE(give_back(assignment, book));
  }
  for (const bool is_in : {true, false}) {
    std::size_t killed = switched;
    for (const Kill& at : kKills) {
      SCOPED_TRACE(std::string("behind ") + at.behind + (is_in ? ", with somebody in it" : ""));
      change_volume("rm -f tmp/go; cp bin/sh bin/bash");
      std::ignore = tries_first();
      ASSERT_NO_FATAL_FAILURE(break_shell("stall"));
      ::unlink(kPerson);
      ++killed;
      ASSERT_TRUE(killed_after(killed, [&](StatusBook& book) {
        input_.late_login = kLateHere;
        input_.enter_stage = [&](Stage stage, const std::string&) {
          if (stage != Stage::ready || !is_in) return;
          std::ignore = write_file_atomic(kPerson, std::to_string(come_in()), 0600);
        };
        input_.login_is_late = [](const std::string&) { let_login_go_on(); };
        Assignment lost;
        std::ignore = bring_up(input_, lost, book, stop_);
      }));
      const auto steps = status_fields(read_file(kStatusOfChild, kMaxStatus).value_or("")).steps;
      ASSERT_FALSE(steps.empty());
      EXPECT_THAT(steps.back(), HasSubstr(at.behind));
      const pid_t person = is_in ? std::stoi(read_file(kPerson, 64).value_or("0")) : 0;
      EXPECT_EQ(session_os() == "Test Volume 1", at.leads_in);
      auto held = take_leftovers();
      ASSERT_TRUE(held) << held.error().message();
      ASSERT_EQ(held->has_value(), is_in || at.leads_in);
      if (!*held) {
        EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty()) << "nobody was in it";
        continue;
      }
      EXPECT_EQ((*held)->volume.untried, at.is_untried);
      let_login_go_on();
      StatusBook book("");
      Assignment assignment = taken_over(std::move((*held)->volume), book);
      const Ok done = resume(input_, assignment, book, stop_);
      EXPECT_TRUE(done) << (done ? "" : done.error().message());
      EXPECT_EQ(session_os(), "Test Volume 1");
      EXPECT_EQ(banner(), "");
      if (is_in) {
        EXPECT_TRUE(is_there(person));
        ::kill(person, SIGKILL);
      }
      ASSERT_TRUE(give_back(assignment, book));
    }
  }
}

/// What `status`, the manager and people are told meanwhile, and that the ticker leads nobody.
TEST_F(BootProvenUp, while_the_login_behind_ready_is_late_who_is_in_stays_and_others_get_the_base) {
  make_volume();
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(serve_once());
  ASSERT_NO_FATAL_FAILURE(put_shell("stall"));
  ::unlink(kStatusFile);
  ::unlink(kLogFile);
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  ASSERT_NO_FATAL_FAILURE(come_in());
  ASSERT_TRUE(comes([] { return status().stage == "mounted"; }));
  const std::string late = "the probe login of root takes longer than 10 s";
  EXPECT_THAT(status().message, HasSubstr(late));
  EXPECT_THAT(read_file(kBannerFile, 65536).value_or(""), HasSubstr("Why: " + late));
  EXPECT_EQ(base_login("echo $HOME"), "/run/keeper") << "on the base";
  ::poll(nullptr, 0, 7000);  // longer than the ticker takes to look after sessions
  EXPECT_EQ(status().stage, "mounted");
  EXPECT_EQ(link_text(kSessionRoot), "/");
  let_login_go_on();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_THAT(status().message, Not(HasSubstr(late)));
  EXPECT_EQ(::access(kBannerFile, F_OK), -1);
  EXPECT_EQ(login(), "/home/ada PRETTY_NAME=\"Test Volume 1\"");
  const auto said = shell(
      "echo hello >/run/words; until grep -q hello /run/said; do sleep 0.01; done; "
      "tail -n 1 /run/said");
  ASSERT_TRUE(said) << said.error().message();
  EXPECT_EQ(*said, "hello, /home/ada") << "whoever was in it before has never left";
  const std::string log = read_file(kLogFile, kMaxStatus).value_or("");
  const std::size_t first = log.find("stage name=ready");
  ASSERT_NE(first, std::string::npos);
  const std::size_t back = log.find("stage name=mounted", first);
  ASSERT_NE(back, std::string::npos) << "else it was tried first";
  EXPECT_NE(log.find("stage name=ready", back), std::string::npos);
  EXPECT_EQ(log.find("stage name=failed"), std::string::npos);
  EXPECT_TRUE(down());
  ASSERT_TRUE(comes([] { return !daemon_runs(); }));
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

}  // namespace
}  // namespace warmroot::bootstrap
