// What a program that runs beside this one is kept from.
#include "bootstrap/beside.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/files.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

class StartBeside : public testing::Test {
 protected:
  /// What it says where it does not start; "started" where it does.
  std::string outcome(std::vector<std::string> no_links, std::vector<std::string> regular_files) {
    const std::string path = at("log");
    const UniqueFd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const auto child = start_beside({{"/bin/true"},
                                     {},
                                     -1,
                                     log.get(),
                                     {},
                                     std::move(no_links),
                                     std::move(regular_files)});
    if (!child) return child.error().message();
    const auto status = wait_child(*child, std::chrono::seconds(60));
    if (!status) return status.error().message();
    if (end_in_words(*status) == "ended with 0") return "started";
    EXPECT_EQ(end_in_words(*status), "ended with 127");
    return read_file(path, 4096).value_or("");
  }
  std::string at(const std::string& name) const { return directory_.path() + "/" + name; }

 private:
  const TemporaryDirectory directory_;
};

TEST_F(StartBeside, a_link_that_it_would_follow_keeps_it_from_starting) {
  ASSERT_TRUE(make_directory(at("etc"), 0755));
  EXPECT_EQ(outcome({at("etc"), at("missing")}, {}), "started");
  ASSERT_EQ(::symlink("etc", at("led").c_str()), 0);
  EXPECT_EQ(outcome({at("etc"), at("led")}, {}),
            at("led") + " is a symbolic link, which would be followed on the base\n");
  ASSERT_EQ(::symlink("nowhere", at("dangling").c_str()), 0);
  EXPECT_EQ(outcome({at("dangling")}, {}),
            at("dangling") + " is a symbolic link, which would be followed on the base\n");
}

TEST_F(StartBeside, what_it_would_open_and_is_no_regular_file_keeps_it_from_starting) {
  ASSERT_TRUE(write_file_atomic(at("machine-id"), "0\n", 0644));
  EXPECT_EQ(outcome({}, {at("machine-id"), at("missing")}), "started");
  const std::string why = " is no regular file, and would be opened on the base\n";
  ASSERT_EQ(::symlink("machine-id", at("led").c_str()), 0);
  EXPECT_EQ(outcome({}, {at("machine-id"), at("led")}), at("led") + why);
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(outcome({}, {at("pipe")}), at("pipe") + why);
}

TEST_F(StartBeside, a_place_that_cannot_be_looked_at_keeps_it_from_starting) {
  ASSERT_TRUE(write_file_atomic(at("file"), "", 0644));
  EXPECT_EQ(outcome({at("file/below")}, {}), at("file/below") + " cannot be looked at\n");
}

}  // namespace
}  // namespace warmroot::bootstrap
