// A disk of the base's that does not answer, where the bootstrap keeps what outlives a boot: the
// volume is given back all the same.
#include <gmock/gmock.h>
#include <unistd.h>

#include <string>

#include "bootstrap/reboot.hpp"
#include "tests/base_disk.hpp"
#include "tests/boot_up.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr char kNames[] = R"({"wishes":{"drain":false,"volume_id":"vol-0abc"}})";
constexpr char kDrains[] = R"({"wishes":{"drain":true,"volume_id":"vol-0abc"}})";

class BootBaseDisk : public BootUp {
 protected:
  void SetUp() override {
    BootUp::SetUp();
    if (!reason_.empty()) return;
    ASSERT_TRUE(shell("rm -rf /run/heard /run/answers; mkdir /run/answers"));
    ASSERT_TRUE(write_in_place(kReportAnswer, kNames));
  }

  static bool comes_to_step(const std::string& name) {
    return comes([&] {
      const auto log = read_file(kLogFile, kMaxStatus).value_or("");
      return log.find("step name=" + name) != std::string::npos;
    });
  }

  static bool served_is_kept() { return ::access(kServedVolume, F_OK) == 0; }
};

/// It was heard once the base's disk had answered, where what is served was forgotten first.
TEST_F(BootBaseDisk, that_does_not_answer_keeps_no_wish_to_drain_from_being_heard) {
  make_volume();
  dress_as_disk();
  const BaseDisk base;
  ASSERT_TRUE(base.is_mounted());
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_to_preflight()) << "until then the base's boot loader is read";
  ASSERT_TRUE(comes([] { return served_is_kept(); }));
  {
    const Frozen disk(BaseDisk::kPlace);
    ASSERT_TRUE(disk.is_frozen());
    EXPECT_TRUE(
        write_in_place(kReportAnswer, R"({"wishes":{"drain":true,"volume_id":"vol-0def"}})"));
    EXPECT_TRUE(comes([] { return mounts_at(kVolumePoint).empty(); })) << status().stage;
  }
  EXPECT_TRUE(comes([] { return status().stage == "released"; })) << status().message;
  kill_daemon();
}

/// The main thread waited for it, and obeyed nobody.
TEST_F(BootBaseDisk, that_does_not_answer_when_what_is_served_is_to_be_kept_keeps_no_volume) {
  make_volume("cp $t/bin/stall $t/bin/bash");  // so that the login waits for us
  dress_as_disk();
  const BaseDisk base;
  ASSERT_TRUE(base.is_mounted());
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_to_step("accounts")) << "until then they are recorded there";
  {
    const Frozen disk(BaseDisk::kPlace);
    ASSERT_TRUE(disk.is_frozen());
    EXPECT_TRUE(write_in_place(inside("tmp/go"), ""));
    EXPECT_TRUE(comes_ready()) << status().stage << ": " << status().message;
    EXPECT_FALSE(served_is_kept());
    EXPECT_TRUE(write_in_place(kReportAnswer, kDrains));
    EXPECT_TRUE(comes([] { return mounts_at(kVolumePoint).empty(); })) << status().stage;
  }
  EXPECT_TRUE(comes([] { return status().stage == "released"; })) << status().message;
  EXPECT_TRUE(comes([] { return given_away_before(kOwner).volume_id == "vol-0abc"; }));
  kill_daemon();
}

/// It was told when the disk had answered, and the node got no other volume until then.
TEST_F(BootBaseDisk, that_does_not_answer_does_not_keep_the_manager_from_hearing_of_a_release) {
  make_volume();
  ASSERT_TRUE(shell("printf 'clri <2>\nssv state 0\n' | debugfs -w -f - " + loop_ +
                    " >/dev/null 2>&1; sync " + loop_));  // for people to repair
  dress_as_disk();
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "QM0001\n"));  // and is not seen at first
  const BaseDisk base;
  ASSERT_TRUE(base.is_mounted());
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] { return status().message == "waiting for the disk of vol-0abc"; }))
      << status().message;
  {
    const Frozen disk(BaseDisk::kPlace);
    ASSERT_TRUE(disk.is_frozen());
    EXPECT_TRUE(write_in_place("/run/block/vdz/serial", "vol0abc\n"));
    EXPECT_TRUE(comes([] {
      return read_file(kHeard, kMaxStatus).value_or("").find("released") != std::string::npos;
    })) << status().stage
        << ": " << status().message;
  }
  EXPECT_TRUE(comes([] { return given_away_before(kOwner).volume_id == "vol-0abc"; }))
      << "it answered before the machine was gone";
  kill_daemon();
}

}  // namespace
}  // namespace warmroot::bootstrap
