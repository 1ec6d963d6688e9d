// When the status file is replaced: what people wait for at once, what they read later together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/status.hpp"

namespace warmroot::bootstrap {
namespace {

class StatusBookTest : public testing::Test {
 protected:
  void TearDown() override { ::unlink(file_.c_str()); }

  StatusFields written() const { return status_fields(read_file(file_, 65536).value_or("")); }

  static void step(StatusBook& book, const char* name) {
    book.record({name, book.now_ms(), 0, Outcome::ok, {}});
  }

  const std::string file_ = testing::TempDir() + "status." + std::to_string(::getpid());
  StatusBook book_{file_, {}, std::chrono::hours(1)};
};

TEST_F(StatusBookTest, a_new_stage_or_message_is_written_at_once_with_all_steps_before_it) {
  book_.update([](Status& status) { status.stage = Stage::disk_seen; });
  step(book_, "find the disk");
  step(book_, "mount the root");
  EXPECT_THAT(written().steps, testing::IsEmpty());
  EXPECT_EQ(written().stage, "disk_seen");
  book_.update([](Status& status) { status.stage = Stage::mounted; });
  EXPECT_EQ(written().stage, "mounted");
  EXPECT_EQ(written().steps.size(), 2U);
  step(book_, "accounts");
  EXPECT_EQ(written().steps.size(), 2U);
  book_.update([](Status& status) { status.message = "no login"; });
  EXPECT_EQ(written().message, "no login");
  EXPECT_EQ(written().steps.size(), 3U);
}

TEST_F(StatusBookTest, a_step_that_comes_long_after_the_last_write_is_written) {
  StatusBook book(file_, {}, std::chrono::milliseconds(2));
  book.update([](Status& status) { status.stage = Stage::draining; });
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  step(book, "end sessions");
  EXPECT_EQ(written().steps.size(), 1U);
}

TEST_F(StatusBookTest, write_leaves_nothing_out) {
  book_.update([](Status& status) { status.stage = Stage::ready; });
  step(book_, "preflight");
  book_.write();
  EXPECT_EQ(written().steps.size(), 1U);
}

}  // namespace
}  // namespace warmroot::bootstrap
