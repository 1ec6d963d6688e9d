// The filter of system calls against the real kernel, each thread of a test confined for good. That
// warming works under it, all tests of the warmer show, which run it confined.
#include "bootstrap/warm/confine.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include <cerrno>
#include <functional>
#include <string>
#include <thread>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/read_engine.hpp"
#include "tests/must_run.hpp"
#include "tests/refuse_call.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;

/// `work` in a thread that is confined; false where it could not be.
bool confined(
    const std::function<void()>& work, const std::function<void()>& before = [] {}) {
  bool done = false;
  std::thread([&] {
    before();
    done = confine_thread().has_value();
    if (done) work();
  }).join();
  return done;
}

class Confine : public testing::Test {
 protected:
  void SetUp() override {
    if (confined([] {})) return;
    if (must_run()) FAIL() << "this kernel takes no seccomp filter";
    GTEST_SKIP() << "NOT TESTED: this kernel takes no seccomp filter";
  }
};

struct Call {
  const char* name;
  std::function<long()> make;  ///< -1 when refused
};

const Call kForbidden[] = {
    {"execve", [] { return long{::execl("/bin/true", "true", nullptr)}; }},
    {"fork", [] { return ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }},
    {"a process by clone3", [] { return long{::fork()}; }},
    {"socket", [] { return long{::socket(AF_INET, SOCK_STREAM, 0)}; }},
    {"mount", [] { return long{::mount("none", "/does/not/exist", "tmpfs", 0, nullptr)}; }},
    {"umount", [] { return long{::umount2("/does/not/exist", MNT_DETACH)}; }},
    {"fsopen", [] { return ::syscall(SYS_fsopen, "tmpfs", 0); }},
    {"unshare", [] { return long{::unshare(CLONE_NEWNS)}; }},
    {"chroot", [] { return long{::chroot("/")}; }},
    {"setresuid", [] { return ::syscall(SYS_setresuid, 0, 0, 0); }},
    {"ptrace", [] { return long{::ptrace(PTRACE_ATTACH, ::getppid(), nullptr, nullptr)}; }},
    {"bpf", [] { return ::syscall(SYS_bpf, 0, nullptr, 0); }},
    {"init_module", [] { return ::syscall(SYS_init_module, nullptr, 0, ""); }},
    {"a signal", [] { return long{::kill(::getpid(), SIGWINCH)}; }},
    {"another process' thread", [] { return ::syscall(SYS_tgkill, 1, 1, SIGWINCH); }},
    {"a second ring", [] { return ::syscall(SYS_io_uring_setup, 0, nullptr); }},
    {"writing at an offset", [] { return static_cast<long>(::pwrite(1, "", 0, 0)); }},
    {"truncating", [] { return long{::truncate("/does/not/exist", 0)}; }},
    {"a discard", [] { return long{::ioctl(0, BLKDISCARD, nullptr)}; }},
    {"terminal input", [] { return long{::ioctl(0, TIOCSTI, "")}; }},
    {"memory that runs",
     [] {
       return reinterpret_cast<long>(
           ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
     }},
    {"a number of another table", [] { return ::syscall(0x40000000 | SYS_getpid); }},
};

TEST_F(Confine, refuses_what_warming_does_not_need) {
  for (const Call& call : kForbidden) {
    SCOPED_TRACE(call.name);
    const pid_t own = ::getpid();
    long answer = 0;
    int code = 0;
    EXPECT_TRUE(confined([&] {
      errno = 0;
      answer = call.make();
      code = errno;
      if (::getpid() != own) ::_exit(1);  // it was not refused, and this is the child
    }));
    EXPECT_EQ(answer, -1);
    EXPECT_EQ(code, EPERM);
  }
}

/// Where a file lies is asked of no btrfs, which the filter did not let us recognise.
TEST_F(Confine, lets_file_systems_be_told_apart) {
  struct statfs filesystem {};
  EXPECT_TRUE(confined([&] {
    const UniqueFd here(::open("/", O_RDONLY | O_CLOEXEC));
    if (::fstatfs(here.get(), &filesystem) != 0) filesystem.f_type = 0;
  }));
  EXPECT_NE(filesystem.f_type, 0);
}

TEST_F(Confine, binds_threads_that_are_started_later_and_no_other) {
  int by_child = 0;
  EXPECT_TRUE(
      confined([&] { std::thread([&] { by_child = ::socket(AF_UNIX, SOCK_STREAM, 0); }).join(); }));
  EXPECT_EQ(by_child, -1);
  const UniqueFd here(::socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_TRUE(here) << "the rest of the bootstrap has to go on";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(7);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(Confine, is_an_error_where_the_kernel_refuses_filters_and_leaves_the_thread_as_it_was) {
  bool refused = false, opens = false;
  std::thread([&] {
    refused = refuse_call(SYS_seccomp);
    const Ok done = confine_thread();
    EXPECT_FALSE(done);
    if (!done) {
      EXPECT_EQ(done.error().message(), "a seccomp filter: Operation not permitted (EPERM)");
    }
    opens = static_cast<bool>(UniqueFd(::socket(AF_UNIX, SOCK_STREAM, 0)));
  }).join();
  EXPECT_TRUE(refused);
  EXPECT_TRUE(opens);
}

class ConfinedEngine : public Confine, public testing::WithParamInterface<EngineChoice> {};

TEST_P(ConfinedEngine, reads_what_it_is_asked_for) {
  constexpr unsigned kReads = 24;
  std::string path = "/tmp/warmroot-confined-XXXXXX";
  const UniqueFd file(::mkstemp(path.data()));
  ASSERT_EQ(::ftruncate(file.get(), kReads * kTouchBytes), 0);
  ::unlink(path.c_str());
  std::unique_ptr<ReadEngine> engine;
  std::size_t read = 0;
  const bool done = confined(
      [&] {
        if (!engine) return;
        std::vector<ReadRequest> requests;
        for (unsigned i = 0; i < kReads; ++i) requests.push_back({i, i * kTouchBytes, kTouchBytes});
        EXPECT_TRUE(engine->submit(requests));
        std::vector<ReadResult> results;
        for (int waits = 0; results.size() < kReads && waits < 100; ++waits)
          EXPECT_TRUE(engine->wait(milliseconds(100), results));
        for (const ReadResult& result : results) read += result.error == 0;
        engine.reset();
      },
      [&] {
        auto made = make_read_engine(file.get(), kReads, GetParam());
        if (made) engine = std::move(*made);
      });
  ASSERT_TRUE(done);
  EXPECT_EQ(read, kReads);
}

INSTANTIATE_TEST_SUITE_P(Both, ConfinedEngine,
                         testing::Values(EngineChoice::io_uring, EngineChoice::pread),
                         [](const auto& choice) {
                           return choice.param == EngineChoice::pread ? std::string("pread")
                                                                      : std::string("io_uring");
                         });

/// Number of this process' ring; -1 where there is none.
int ring_of_this_process() {
  for (int fd = 0; fd < 256; ++fd) {
    char target[64] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), target, sizeof target - 1) > 0 &&
        std::string(target).find("[io_uring]") != std::string::npos)
      return fd;
  }
  return -1;
}

TEST(Ring, takes_no_other_orders_than_reads) {
  const UniqueFd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const auto engine = make_read_engine(zero.get(), 4, EngineChoice::io_uring);
  if (!engine) {
    if (must_run()) FAIL() << engine.error().message();
    GTEST_SKIP() << "NOT TESTED: " << engine.error().message();
  }
  const int ring = ring_of_this_process();
  ASSERT_GE(ring, 0);
  constexpr unsigned kUnregisterBuffers = 1;  // what a ring without restrictions answers ENXIO to
  EXPECT_EQ(::syscall(SYS_io_uring_register, ring, kUnregisterBuffers, nullptr, 0), -1);
  EXPECT_EQ(errno, EACCES);
}

}  // namespace
}  // namespace warmroot::warm
