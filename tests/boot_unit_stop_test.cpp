// The bootstrap is told to end by init while the machine goes on: somebody stops its unit, or takes
// the shutdown back. Nobody of it is left then, and people have to get in all the same.
#include <gmock/gmock.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "tests/boot_init.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::Contains;
using testing::IsEmpty;

constexpr char kStopsUnit[] = "9 warmroot-bootstrap.scope stop running\n";

class BootUnitStop : public BootReboot {
 protected:
  void serve_for_manager() {
    make_volume();
    dress_as_disk();
    ASSERT_NO_FATAL_FAILURE(serve());
  }

  static bool all_end() {
    return comes([] { return !daemon_runs() && !supervisor_runs(); });
  }
};

/// It was taken for a shutdown, and new sessions stayed refused.
TEST_F(BootUnitStop, who_stops_the_unit_is_an_operator_and_people_land_on_the_base) {
  ASSERT_NO_FATAL_FAILURE(serve_for_manager());
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kStopsUnit));
  ASSERT_TRUE(all_end()) << "init kills what has not ended";
  EXPECT_EQ(status().stage, "released") << status().message;
  EXPECT_THAT(heard().words, Contains("released operator"));
  EXPECT_EQ(link_text(kSessionRoot), "/");
  EXPECT_EQ(base_login("echo $HOME"), "/run/keeper");
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(BootUnitStop, who_stops_the_unit_of_a_machine_that_should_be_gone_lets_people_in) {
  ASSERT_NO_FATAL_FAILURE(serve_for_manager());
  ASSERT_TRUE(
      write_in_place(kNoticeFile, R"({"action":"terminate","time":"2026-01-02T03:06:05Z"})"));
  ASSERT_TRUE(comes([] { return status().stage == "released"; })) << status().message;
  ASSERT_EQ(link_text(kSessionRoot), kNowhere);
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kStopsUnit));
  ASSERT_TRUE(all_end());
  EXPECT_EQ(link_text(kSessionRoot), "/");
}

TEST_F(BootUnitStop, a_shutdown_or_a_reboot_that_is_taken_back_meanwhile_lets_people_in) {
  make_volume();
  dress_as_disk();
  for (const auto& [jobs, stage] :
       {std::pair{kPowersOff, "draining"}, std::pair{kReboots, "rebooting"}}) {
    for (const bool taken_back : {true, false}) {
      SCOPED_TRACE(std::string(stage) + (taken_back ? ", taken back" : ""));
      ASSERT_NO_FATAL_FAILURE(serve());
      ASSERT_NO_FATAL_FAILURE(come_in());  // she has time to save, and init to change its mind
      ASSERT_NO_FATAL_FAILURE(init_ends_it(jobs));
      ASSERT_TRUE(comes([stage = stage] { return status().stage == stage; }));
      if (taken_back) {
        ASSERT_TRUE(write_in_place(kJobs, kStopsUnit));
      }
      ASSERT_TRUE(all_end());
      EXPECT_EQ(link_text(kSessionRoot), taken_back ? "/" : kNowhere);
      EXPECT_EQ(::access(kBootEnds, F_OK) == 0, !taken_back) << "else `up` is no order any more";
      end_process(sshd_);
    }
  }
}

/// Sessions had not been refused, as by a node without a manager, and nobody looked whether the
/// machine stays: the next `up` took this boot for another one.
TEST_F(BootUnitStop, a_shutdown_or_a_reboot_that_is_taken_back_ends_no_boot_that_refused_nobody) {
  make_volume();
  dress_as_disk();
  for (const auto& [jobs, stage] :
       {std::pair{kPowersOff, "draining"}, std::pair{kReboots, "rebooting"}}) {
    SCOPED_TRACE(stage);
    ASSERT_NO_FATAL_FAILURE(serve(kTicket));
    ASSERT_NO_FATAL_FAILURE(come_in());  // she has time to save, and init to change its mind
    ASSERT_NO_FATAL_FAILURE(init_ends_it(jobs));
    ASSERT_TRUE(comes([stage = stage] { return status().stage == stage; }));
    EXPECT_EQ(::access(kBootEnds, F_OK), 0);
    ASSERT_TRUE(write_in_place(kJobs, kStopsUnit));
    ASSERT_TRUE(all_end());
    EXPECT_NE(::access(kBootEnds, F_OK), 0);
    EXPECT_EQ(link_text(kSessionRoot), "/");
    end_process(sshd_);
  }
}

}  // namespace
}  // namespace warmroot::bootstrap
