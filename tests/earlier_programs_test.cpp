#include "manager/earlier_programs.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "manager/aws/sigv4.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

namespace fs = std::filesystem;

BootstrapProgram program(const std::string& bytes) {
  return {bytes, aws::sha256_hex(bytes)};
}

class EarlierProgramsTest : public testing::Test {
 protected:
  void keep(const BootstrapProgram& program, int hours_ago = 0) {
    ASSERT_TRUE(EarlierPrograms(directory_.string()).keep(program).has_value());
    fs::last_write_time(file_of(program),
                        fs::file_time_type::clock::now() - std::chrono::hours{hours_ago});
  }
  fs::path file_of(const BootstrapProgram& program) const {
    return directory_ / (program.sha256 + ".program");
  }

  /// As the next process finds it; empty where there is none.
  std::string bytes_of(const std::string& bytes) const {
    const auto found = EarlierPrograms(directory_.string()).of(program(bytes).sha256);
    return found ? *found : std::string();
  }

  const TemporaryDirectory folder_;
  const fs::path directory_ = fs::path(folder_.path()) / "programs";
  EarlierPrograms kept_{directory_.string()};
};

TEST_F(EarlierProgramsTest, what_was_served_before_an_upgrade_is_there_by_its_digest) {
  keep(program("old"));
  keep(program("new"));
  EXPECT_EQ(bytes_of("old"), "old");
  EXPECT_EQ(bytes_of("new"), "new");
  EXPECT_EQ(bytes_of("never"), "");
}

TEST_F(EarlierProgramsTest, those_served_longest_ago_are_forgotten) {
  keep(program("1"), 5);
  keep(program("2"), 4);
  keep(program("3"), 3);
  keep(program("4"), 2);
  keep(program("1"), 1);  // a downgrade
  keep(program("5"));
  EXPECT_EQ(bytes_of("2"), "");
  for (const char* bytes : {"1", "3", "4", "5"}) EXPECT_EQ(bytes_of(bytes), bytes);
}

TEST_F(EarlierProgramsTest, bytes_that_are_not_those_of_the_name_are_given_to_nobody) {
  keep(program("whole"));
  fs::resize_file(file_of(program("whole")), 3);
  EXPECT_EQ(bytes_of("whole"), "");
  keep(program("whole"));
  EXPECT_EQ(bytes_of("whole"), "whole");
}

TEST_F(EarlierProgramsTest, a_name_that_is_no_digest_reaches_no_file) {
  keep(program("x"));
  for (const std::string& name :
       {std::string("../programs/") + program("x").sha256, std::string(64, '/'), std::string()})
    EXPECT_EQ(kept_.of(name), nullptr) << name;
}

}  // namespace
}  // namespace warmroot::manager
