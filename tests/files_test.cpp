// How files of the base are replaced, and how children are waited for.
#include "bootstrap/files.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "bootstrap/base/unique_fd.hpp"
#include "tests/must_run.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr char kSelinuxLabel[] = "security.selinux";

std::string label_of(const std::string& path) {
  char label[256];
  const ssize_t size = ::getxattr(path.c_str(), kSelinuxLabel, label, sizeof label);
  return size < 0 ? std::string() : std::string(label, static_cast<std::size_t>(size));
}

TEST(WriteFileAtomic, a_file_that_is_replaced_keeps_its_selinux_label) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/shadow";
  ASSERT_TRUE(write_file_atomic(path, "root:*:\n", 0640));
  const std::string label = "system_u:object_r:shadow_t:s0";
  if (::setxattr(path.c_str(), kSelinuxLabel, label.data(), label.size(), 0) != 0) {
    const std::string why = std::string("no label can be set here: ") + std::strerror(errno);
    if (must_run()) FAIL() << why;
    GTEST_SKIP() << why;
  }
  ASSERT_TRUE(write_file_atomic(path, "root:*:\nada:!*:\n", 0600));
  EXPECT_EQ(label_of(path), label);
  EXPECT_EQ(read_file(path, 4096).value_or(""), "root:*:\nada:!*:\n");
  struct stat facts {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600U);
}

TEST(StagedFile, what_has_not_taken_its_place_leaves_the_old_file_and_nothing_beside_it) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/passwd";
  ASSERT_TRUE(write_file_atomic(path, "root:x:0:0::/:/bin/sh\n", 0644));
  {
    auto staged = StagedFile::write(path, "half of it", 0644);
    ASSERT_TRUE(staged);
    ASSERT_TRUE(staged->sync());
    EXPECT_EQ(list_directory(directory.path()).size(), 2U);
  }
  EXPECT_THAT(list_directory(directory.path()), ::testing::ElementsAre("passwd"));
  EXPECT_EQ(read_file(path, 4096).value_or(""), "root:x:0:0::/:/bin/sh\n");
}

TEST(StagedFile, several_are_synced_beside_each_other_and_take_their_places_one_by_one) {
  const TemporaryDirectory directory;
  const std::string first = directory.path() + "/group", second = directory.path() + "/passwd";
  std::vector<StagedFile> files;
  for (const auto& path : {first, second}) {
    auto staged = StagedFile::write(path, "of " + path, 0640);
    ASSERT_TRUE(staged);
    files.push_back(std::move(*staged));
  }
  ASSERT_TRUE(sync_all(files));
  ASSERT_TRUE(files[0].take_place());
  EXPECT_EQ(read_file(first, 4096).value_or(""), "of " + first);
  EXPECT_FALSE(read_file(second, 4096));
  ASSERT_TRUE(files[1].take_place());
  EXPECT_EQ(read_file(second, 4096).value_or(""), "of " + second);
  EXPECT_EQ(list_directory(directory.path()).size(), 2U);
}

/// A table of mounts was left out as a whole where somebody had made it long.
TEST(ReadLines, of_a_file_that_is_longer_than_what_is_read_the_first_whole_lines_count) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/table";
  ASSERT_TRUE(write_file_atomic(path, "one\ntwo\nthree", 0600));
  EXPECT_EQ(read_lines(path, 4096), "one\ntwo\nthree");
  EXPECT_EQ(read_lines(path, 10), "one\ntwo\n");
  EXPECT_EQ(read_lines(path, 8), "one\ntwo\n");
  EXPECT_EQ(read_lines(path, 3), "");
  EXPECT_EQ(read_lines(directory.path() + "/none", 4096), "");
}

/// A child whose end its father cannot take, though it was killed, for as long as somebody traces
/// it: to him it is one that waits for a disk.
class Endless {
 public:
  Endless() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    const UniqueFd reading(ends[0]), writing(ends[1]);
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
      say(writing.get(), 'y');
      while (true) ::pause();
    }
    if (child_ < 0 || heard(reading.get()) != 'y') return;
    tracer_ = ::fork();
    if (tracer_ == 0) {
      say(writing.get(), ::ptrace(PTRACE_SEIZE, child_, nullptr, nullptr) == 0 ? 'y' : 'n');
      while (true) ::pause();
    }
    is_traced_ = tracer_ > 0 && heard(reading.get()) == 'y';
  }
  ~Endless() {
    end();
    if (child_ <= 0 || ::waitpid(child_, nullptr, WNOHANG) != 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Endless(const Endless&) = delete;
  Endless& operator=(const Endless&) = delete;

  /// False where nobody may be traced here.
  bool is_traced() const { return is_traced_; }
  pid_t child() const { return child_; }
  /// As when the disk answers.
  void end() {
    if (tracer_ <= 0) return;
    ::kill(tracer_, SIGKILL);
    ::waitpid(tracer_, nullptr, 0);
    tracer_ = 0;
  }

 private:
  static void say(int fd, char word) { std::ignore = ::write(fd, &word, 1); }
  static char heard(int fd) {
    char word = 0;
    return ::read(fd, &word, 1) == 1 ? word : '\0';
  }

  pid_t child_ = 0, tracer_ = 0;
  bool is_traced_ = false;
};

TEST(WaitChild, one_that_cannot_be_ended_is_given_up_and_reaped_when_it_has_ended) {
  Endless endless;
  if (!endless.is_traced()) {
    if (must_run()) FAIL() << "nobody may be traced here";
    GTEST_SKIP() << "nobody may be traced here";
  }
  const std::string process = "process " + std::to_string(endless.child());
  const std::int64_t started = boottime_ms();
  bool stops = false;
  const auto status = wait_child(endless.child(), std::chrono::minutes(5), [&] {
    stops = boottime_ms() - started > 300;
    return stops;
  });
  EXPECT_TRUE(stops);
  EXPECT_LT(boottime_ms() - started, 30'000);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::retry_later);
  EXPECT_EQ(status.error().context,
            "asked to stop, and " + process +
                " was given up: it cannot be ended, and may wait for a disk");
  reap_given_up();
  EXPECT_EQ(::waitpid(endless.child(), nullptr, WNOHANG), 0) << "it is waited for still";
  endless.end();
  reap_given_up();
  EXPECT_EQ(::waitpid(endless.child(), nullptr, WNOHANG), -1) << "it stays a zombie";
}

TEST(WaitChild, one_that_is_killed_in_time_is_not_given_up) {
  const pid_t child = ::fork();
  if (child == 0)
    while (true) ::pause();
  ASSERT_GT(child, 0);
  const auto status = wait_child(child, std::chrono::milliseconds(50));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().context, "time limit passed");
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), -1) << "it stays a zombie";
}

}  // namespace
}  // namespace warmroot::bootstrap
