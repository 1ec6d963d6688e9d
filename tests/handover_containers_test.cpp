// What a release does for programs with a mount namespace of their own, against the real kernel:
// containers that were started in the volume, services of the base, and namespaces that somebody
// has kept.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <chrono>
#include <string>
#include <vector>

#include "bootstrap/mount_copies.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/mount_namespaces.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/volume_root.hpp"
#include "tests/handover_containers.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string namespace_file(pid_t child) {
  return "/proc/" + std::to_string(child) + "/ns/mnt";
}

/// `unshare -m` in a session, and a root that was moved over the session's.
pid_t moved_container() {
  return child_that([] {
    return enter_volume() && own_mounts_alone() && mount_overlay("/c1") && move_into("/c1/merged");
  });
}

/// Started in a session whose namespace is its own, and deaf to SIGTERM.
pid_t pivoted_container() {
  return child_that([] {
    ::signal(SIGTERM, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    return own_mounts_alone() && enter_volume() && mount_overlay("/c2") && pivot_into("/c2/merged");
  });
}

/// The same, with its namespace bound to `place`; -1 where that cannot be done. Linux 6.18 numbers
/// namespaces by the processor that made them and binds none that has a lower number than the
/// binder's own (EINVAL), so that it depends on the processor.
pid_t container_kept_at(const std::string& place) {
  cpu_set_t ours;
  if (::sched_getaffinity(0, sizeof ours, &ours) != 0) return -1;
  pid_t kept = -1;
  for (int processor = 0; processor < CPU_SETSIZE && kept < 0; ++processor) {
    if (!CPU_ISSET(processor, &ours)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) break;
    const pid_t container = pivoted_container();
    if (::mount(namespace_file(container).c_str(), place.c_str(), nullptr, MS_BIND, nullptr) == 0)
      kept = container;
    else
      end(container);
  }
  EXPECT_EQ(::sched_setaffinity(0, sizeof ours, &ours), 0);
  return kept;
}

/// A service with a private /tmp.
pid_t service_of_base() {
  return child_that(own_mounts_alone);
}

std::string named(pid_t child) {
  return "handover_contai (" + std::to_string(child) + ")";
}

/// Nobody found them: the volume was unmounted, and its disk busy until the instance's end.
TEST_F(Containers, over_directories_of_the_volume_are_ended_and_a_service_of_the_base_lives_on) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(kContainers));
  // As a docker's daemon in a chroot mounts it, and the service has a copy of that, too.
  end(child_that([] { return enter_volume() && mount_overlay("/c3"); }));
  const pid_t service = service_of_base();
  const std::vector<pid_t> containers{moved_container(), pivoted_container()};
  for (const pid_t container : containers) EXPECT_TRUE(holds(container)) << container;
  EXPECT_FALSE(holds(service));
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  for (const pid_t container : containers) {
    const bool ended = has_ended(container);
    EXPECT_TRUE(ended) << container;
    if (!ended) end(container);
  }
  EXPECT_FALSE(has_ended(service));
  end(service);
  const auto sessions = steps_with("end sessions"), proven = steps_with("prove the device free");
  ASSERT_EQ(sessions.size(), 1U);
  for (const pid_t container : containers)
    EXPECT_THAT(sessions[0].detail, HasSubstr(named(container)));
  EXPECT_THAT(sessions[0].detail, HasSubstr("not all obeyed, the rest was killed"));
  ASSERT_EQ(proven.size(), 1U);
  EXPECT_THAT(proven[0].detail, HasSubstr("a copy of the mount was taken from " + named(service)));
}

/// All namespaces were kept open at once: those beyond the limit were not seen, and there was no
/// descriptor left to do anything in the others.
TEST_F(Containers, more_services_of_the_base_than_may_be_open_files_do_not_keep_the_volume) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  constexpr unsigned kFiles = 64, kServices = 100;
  std::vector<pid_t> services;
  for (unsigned i = 0; i < kServices; ++i) services.push_back(service_of_base());
  const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(next);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  rlimit few = usual;
  few.rlim_cur = static_cast<rlim_t>(next.get()) + kFiles;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  for (const pid_t service : services) {
    EXPECT_FALSE(has_ended(service)) << service;
    end(service);
  }
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

/// Nobody lives there any more, so that no process was found.
TEST_F(Containers, whose_namespace_a_descriptor_or_a_mount_keeps_do_not_keep_the_volume) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(kContainers));
  const pid_t gone = service_of_base();
  const pid_t keeper =
      child_that([path = namespace_file(gone)] { return ::open(path.c_str(), O_RDONLY) >= 0; });
  end(gone);
  ASSERT_TRUE(shell("touch /run/kept"));
  const pid_t container = container_kept_at("/run/kept");
  ASSERT_GT(container, 0);
  EXPECT_THAT(MountCopies({*mounted_root()}).keepers(),
              AllOf(HasSubstr(named(container)), HasSubstr("a descriptor of " + named(keeper))));
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_TRUE(has_ended(container));
  EXPECT_FALSE(has_ended(keeper)) << "it is none of the volume's";
  end(keeper);
  const auto proven = steps_with("prove the device free");
  ASSERT_EQ(proven.size(), 1U);
  EXPECT_THAT(proven[0].detail,
              AllOf(HasSubstr("a mount at /run/kept"),
                    HasSubstr("a descriptor of " + named(keeper)), Not(HasSubstr("the base"))));
  EXPECT_TRUE(shell("umount /run/kept; rm /run/kept"));
}

TEST_F(Containers, a_namespace_that_keeps_the_volume_and_cannot_be_emptied_is_named) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  // Hidden, so that no path leads to the copy.
  const pid_t gone = child_that([] {
    return own_mounts_alone() && ::mount("over", kVolumeParent, "tmpfs", 0, nullptr) == 0;
  });
  const pid_t keeper =
      child_that([path = namespace_file(gone)] { return ::open(path.c_str(), O_RDONLY) >= 0; });
  end(gone);
  const Ok held = release(leaving(), assignment_, book_);
  ASSERT_FALSE(held);
  EXPECT_THAT(held.error().message(),
              HasSubstr("still mounted in the namespace of a descriptor of " + named(keeper)));
  end(keeper);
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

/// Later attempts took none: it kept the volume for as long as whoever had it lived.
TEST_F(Containers, a_copy_that_no_path_led_to_at_the_first_attempt_is_taken_by_a_later_one) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(write_in_place("/run/block/vdz/diskseq", "7\n"));
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  const pid_t service = child_that([] {
    return own_mounts_alone() && ::mount("over", kVolumeParent, "tmpfs", 0, nullptr) == 0;
  });
  const Ok held = release(leaving(), assignment_, book_);
  const auto bared = in_mount_namespace(
      open_mount_namespace(namespace_file(service)),
      [](int) { return ::umount2(kVolumeParent, UMOUNT_NOFOLLOW) == 0; },
      std::chrono::steady_clock::now() + std::chrono::seconds(60));
  const Ok released = release(leaving(), assignment_, book_);
  const bool lives = !has_ended(service);
  end(service);
  EXPECT_TRUE(shell("rm /run/block/vdz/diskseq"));
  ASSERT_FALSE(held);
  EXPECT_THAT(held.error().message(), HasSubstr("in the namespace of " + named(service)));
  EXPECT_TRUE(bared.value_or(false));
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_TRUE(lives);
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  const auto proven = steps_with("prove the device free");
  ASSERT_EQ(proven.size(), 2U);
  EXPECT_THAT(proven[1].detail, HasSubstr("a copy of the mount was taken from " + named(service)));
}

/// People bind a directory of the volume to a path that programs of the base know.
TEST_F(Containers, a_directory_that_is_bound_elsewhere_on_the_base_does_not_keep_the_volume) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  ASSERT_TRUE(shell("mkdir -p /run/bound; mount --bind " + inside("home") + " /run/bound"));
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_TRUE(mounts_at("/run/bound").empty());
  EXPECT_TRUE(shell("rmdir /run/bound"));
}

}  // namespace
}  // namespace warmroot::bootstrap
