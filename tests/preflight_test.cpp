// What people are told of a machine whose kernel and drivers are another system's.
#include "bootstrap/preflight_io.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A machine without surprises.
PreflightFacts plain() {
  PreflightFacts facts;
  facts.kernel_release = "6.1.0-18-cloud-amd64";
  facts.volume_has_modules = true;
  facts.memory_mib = 16'000;
  facts.memory_free_mib = 15'000;
  return facts;
}

std::string only_remark(const PreflightFacts& facts, bool for_people) {
  const auto remarks = preflight(facts);
  if (remarks.size() != 1) return std::to_string(remarks.size()) + " remarks";
  return remarks.front().for_people == for_people ? remarks.front().text : "for the others";
}

TEST(Preflight, a_machine_without_surprises_is_not_talked_about) {
  EXPECT_THAT(preflight(plain()), IsEmpty());
  EXPECT_EQ(message_of_the_day(preflight(plain())), "");
}

TEST(Preflight, a_reset_may_take_a_volume_that_is_called_like_the_base_s_root) {
  auto facts = plain();
  facts.boot = {.pinned = {}, .open = "UUID=0e1f-aa", .why = "its own disk has no name that lasts"};
  EXPECT_THAT(only_remark(facts, true), HasSubstr("boots from UUID=0e1f-aa, the volume's disk"));
  facts.boot = {.pinned = "UUID=0e1f-aa", .open = {}, .why = {}};
  EXPECT_THAT(only_remark(facts, false), HasSubstr("bear the same name, UUID=0e1f-aa: as long as"));
}

TEST(Preflight, cuda_needs_one_version_in_kernel_and_library) {
  auto facts = plain();
  facts.has_nvidia_gpu = true;
  EXPECT_THAT(only_remark(facts, true), HasSubstr("loaded no driver"));
  facts.nvidia_driver = "535.183.01";
  EXPECT_THAT(preflight(facts), IsEmpty()) << "a volume without CUDA needs none";
  facts.cuda_drivers = {"550.90.07", "535.183.01"};
  EXPECT_THAT(preflight(facts), IsEmpty());
  facts.cuda_drivers = {"550.90.07"};
  EXPECT_THAT(only_remark(facts, true),
              HasSubstr("is the base's, 535.183.01, and this system's libcuda is of 550.90.07"));
}

TEST(Preflight, a_kernel_without_modules_in_the_volume_is_the_operators_matter) {
  auto facts = plain();
  facts.volume_has_modules = false;
  EXPECT_THAT(only_remark(facts, false), HasSubstr("6.1.0-18-cloud-amd64"));
  EXPECT_EQ(message_of_the_day(preflight(facts)), "");
}

TEST(Preflight, a_c_library_that_wants_a_newer_kernel_is_said_at_login) {
  auto facts = plain();
  for (const auto& least : std::vector<warm::KernelVersion>{{3, 2, 0}, {6, 0, 9}, {6, 1, 0}}) {
    facts.libc_least_kernel = least;
    EXPECT_THAT(preflight(facts), IsEmpty());
  }
  for (const auto& least : std::vector<warm::KernelVersion>{{6, 1, 1}, {6, 2, 0}, {7, 0, 0}}) {
    facts.libc_least_kernel = least;
    EXPECT_THAT(only_remark(facts, true), HasSubstr("programs may fail"));
  }
  EXPECT_THAT(only_remark(facts, true), HasSubstr("Linux 7.0.0 and newer, and the kernel is the "
                                                  "base's, 6.1.0-18-cloud-amd64"));
  facts.kernel_release = "unknown";
  EXPECT_THAT(preflight(facts), IsEmpty()) << "not known is not old";
}

TEST(Preflight, a_kernel_s_version_is_read_off_its_release) {
  const auto is = [](const char* release, warm::KernelVersion version) {
    EXPECT_EQ(kernel_version(release), version) << release;
  };
  is("6.1.0-18-cloud-amd64", {6, 1, 0});
  is("5.10.234-225.921.amzn2.x86_64", {5, 10, 234});
  is("6.18", {6, 18, 0});
  is("6.18-rc1", {6, 18, 0});
  is("7.", {7, 0, 0});
  is("4.99999999999.3", {4, 0, 0});
  for (const char* none : {"", "v6.1", "-1.2", "."})
    EXPECT_EQ(kernel_version(none), std::nullopt) << none;
}

TEST(Preflight, little_memory_and_a_policy_that_refuses_are_said_at_login) {
  auto facts = plain();
  facts.memory_free_mib = 100;
  facts.selinux_enforcing = true;
  EXPECT_THAT(message_of_the_day(preflight(facts)),
              StartsWith("warmroot: 100 MiB of 16000 MiB of memory are free\nwarmroot: SELinux"));
  facts = plain();
  facts.selinux_enforcing = false;
  EXPECT_THAT(preflight(facts), IsEmpty());
  facts.memory_mib = facts.memory_free_mib = 0;
  EXPECT_THAT(preflight(facts), IsEmpty()) << "not known is not little";
}

TEST(Preflight, apparmor_s_profiles_are_the_base_s_and_go_by_its_paths) {
  auto facts = plain();
  facts.apparmor_profiles = 12;
  EXPECT_THAT(preflight(facts), IsEmpty()) << "a volume without profiles misses none";
  facts.volume_has_apparmor = true;
  EXPECT_THAT(only_remark(facts, false), HasSubstr("enforces 12, by path on the base"));
  facts.own_mount_namespace = true;
  EXPECT_THAT(only_remark(facts, false), HasSubstr("bind programs of the same path here"));
  facts.apparmor_profiles = 0;
  EXPECT_THAT(preflight(facts), IsEmpty());
  facts.apparmor_profiles = std::nullopt;
  facts.own_mount_namespace = false;
  EXPECT_THAT(preflight(facts), IsEmpty()) << "nobody would load them elsewhere either";
}

TEST(Preflight, an_instance_that_can_take_no_other_volume_says_so_to_the_operator) {
  auto facts = plain();
  facts.slots_taken = 27;
  EXPECT_THAT(preflight(facts), IsEmpty());
  facts.slots_taken = 28;
  EXPECT_THAT(only_remark(facts, false), StartsWith("28 disks and network interfaces"));
}

TEST(Preflight, slots_are_counted_as_the_instance_s_type_has_them) {
  struct Case {
    const char* type;
    std::optional<unsigned> most;
    bool of_volumes_alone;
  };
  for (const Case& each : std::vector<Case>{{"m5.large", 28, false},
                                            {"c6gn.16xlarge", 28, false},
                                            {"g5.12xlarge", 28, false},
                                            {"i3en.metal", 31, false},
                                            {"m7i.large", 32, true},
                                            {"m7i.12xlarge", 32, true},
                                            {"c7i.16xlarge", 48, true},
                                            {"m7i.24xlarge", 64, true},
                                            {"c7i.metal-24xl", 39, true},
                                            {"c7i.48xlarge", 128, true},
                                            {"m7i.metal-48xl", 79, true},
                                            {"m7i.3xlarge", std::nullopt, false},
                                            {"m7i-flex.large", std::nullopt, false},
                                            {"m7g.large", std::nullopt, false},
                                            {"r8g.24xlarge", std::nullopt, false},
                                            {"mac2.metal", std::nullopt, false},
                                            {"u-6tb1.metal", std::nullopt, false},
                                            {"5m.large", std::nullopt, false},
                                            {"m99999999999.large", std::nullopt, false},
                                            {"large", std::nullopt, false},
                                            {"", std::nullopt, false}}) {
    const auto limit = slot_limit(each.type);
    ASSERT_EQ(limit.has_value(), each.most.has_value()) << each.type;
    if (!limit) continue;
    EXPECT_EQ(limit->most, *each.most) << each.type;
    EXPECT_EQ(limit->of_volumes_alone, each.of_volumes_alone) << each.type;
  }
}

/// Interfaces and instance store were counted on types that do not count them, and 28 were as many
/// as any took.
TEST(Preflight, a_type_with_a_limit_of_its_own_is_full_by_its_volumes_alone) {
  auto facts = plain();
  facts.slots_taken = 40;
  facts.volumes_taken = 31;
  facts.instance_type = "m7i.large";
  EXPECT_THAT(preflight(facts), IsEmpty());
  facts.volumes_taken = 32;
  EXPECT_THAT(only_remark(facts, false),
              StartsWith("32 EBS volumes are attached, of the 32 that m7i.large takes"));
  facts.instance_type = "m7g.large";
  EXPECT_THAT(preflight(facts), IsEmpty()) << "its limit is not known here";
  facts.instance_type = "m5.large";
  EXPECT_THAT(only_remark(facts, false), StartsWith("40 disks and network interfaces are attached, "
                                                    "of the 28 that m5.large takes"));
}

TEST(Preflight, a_cuda_drivers_version_is_read_off_its_librarys_name) {
  EXPECT_EQ(cuda_driver_version("libcuda.so.535.183.01"), "535.183.01");
  for (const char* other : {"libcuda.so", "libcuda.so.1", "libcudart.so.12.2", "libcuda.so.5.x\n"})
    EXPECT_EQ(cuda_driver_version(other), "") << other;
}

class PreflightFiles : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const auto file = std::filesystem::path(directory_.path()) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  PreflightFacts facts() {
    std::filesystem::create_directories(directory_.path() + "/root");
    const auto root = RootDirectory::open(directory_.path() + "/root");
    EXPECT_TRUE(root.has_value());
    return preflight_facts(directory_.path() + "/sys", directory_.path() + "/proc", *root);
  }
  TemporaryDirectory directory_;
};

TEST_F(PreflightFiles, are_read_as_the_kernel_writes_them) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  put("proc/meminfo", "MemTotal:       16302344 kB\nMemFree: 1 kB\nMemAvailable:    204800 kB\n");
  put("sys/fs/selinux/enforce", "1");
  put("sys/module/nvidia/version", "535.183.01\n");
  put("sys/bus/pci/devices/0000:00:1e.0/vendor", "0x10de\n");
  put("sys/bus/pci/devices/0000:00:1e.0/class", "0x030200\n");
  for (const char* of_ec2 : {"0000:00:04.0/class", "0000:00:1f.0/class"})
    put(std::string("sys/bus/pci/devices/") + of_ec2, "0x010802\n");
  put("sys/bus/pci/devices/0000:00:05.0/class", "0x020000\n");
  put("sys/class/nvme/nvme0/model", "Amazon Elastic Block Store              \n");
  put("sys/class/nvme/nvme1/model", "Amazon EC2 NVMe Instance Storage        \n");
  put("sys/bus/pci/devices/0000:00:01.0/class", "0x060100\n");
  put("sys/module/apparmor/parameters/enabled", "Y\n");
  put("sys/kernel/security/apparmor/profiles",
      "/usr/bin/man (enforce)\nlsb_release (complain)\nman_filter (enforce)\n");
  put("root/etc/apparmor.d/usr.bin.man", "");
  put("root/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07", "");
  put("root/usr/lib/x86_64-linux-gnu/libcuda.so.1", "");
  put(std::string("root/lib/modules/") + kernel.release + "/modules.dep", "");
  const auto seen = facts();
  EXPECT_EQ(seen.kernel_release, kernel.release);
  EXPECT_TRUE(seen.volume_has_modules);
  EXPECT_EQ(seen.memory_mib, 15'920u);
  EXPECT_EQ(seen.memory_free_mib, 200u);
  EXPECT_EQ(seen.selinux_enforcing, true);
  EXPECT_TRUE(seen.has_nvidia_gpu);
  EXPECT_EQ(seen.slots_taken, 3u);
  EXPECT_EQ(seen.volumes_taken, 1u);
  EXPECT_EQ(seen.apparmor_profiles, 2u);
  EXPECT_TRUE(seen.volume_has_apparmor);
  EXPECT_EQ(seen.nvidia_driver, "535.183.01");
  EXPECT_THAT(seen.cuda_drivers, ElementsAre("550.90.07"));
}

TEST_F(PreflightFiles, a_c_library_says_which_kernel_it_is_made_for) {
  std::filesystem::create_directories(directory_.path() + "/root/lib64");
  std::filesystem::copy_file("/bin/sh", directory_.path() + "/root/lib64/libc.so.6");
  const auto least = facts().libc_least_kernel;
  ASSERT_TRUE(least.has_value()) << "its own programs have the note, too";
  EXPECT_GE((*least)[0], 2u);
  EXPECT_LT((*least)[0], 100u);
}

TEST_F(PreflightFiles, a_c_library_that_is_a_pipe_or_leads_out_of_the_volume_is_none) {
  const std::string libraries = directory_.path() + "/root/lib/x86_64-linux-gnu";
  std::filesystem::create_directories(libraries);
  ASSERT_EQ(::mkfifo((libraries + "/libc.so.6").c_str(), 0600), 0);
  EXPECT_EQ(facts().libc_least_kernel, std::nullopt);
  std::filesystem::remove(libraries + "/libc.so.6");
  std::filesystem::create_symlink("/bin/sh", libraries + "/libc.so.6");
  EXPECT_EQ(facts().libc_least_kernel, std::nullopt);
}

TEST_F(PreflightFiles, what_is_not_there_is_left_out) {
  const auto seen = facts();
  EXPECT_FALSE(seen.volume_has_modules);
  EXPECT_EQ(seen.selinux_enforcing, std::nullopt);
  EXPECT_FALSE(seen.has_nvidia_gpu);
  EXPECT_EQ(seen.slots_taken, 0u);
  EXPECT_EQ(seen.apparmor_profiles, std::nullopt);
  EXPECT_EQ(seen.memory_mib, 0u);
}

TEST_F(PreflightFiles, a_library_directory_that_leads_out_of_the_volume_is_not_followed) {
  put("sys/module/nvidia/version", "535.183.01\n");
  put("outside/libcuda.so.1.2.3", "");
  std::filesystem::create_directories(directory_.path() + "/root/usr/lib");
  std::filesystem::create_directory_symlink(directory_.path() + "/outside",
                                            directory_.path() + "/root/usr/lib/x86_64-linux-gnu");
  EXPECT_THAT(facts().cuda_drivers, IsEmpty());
}

}  // namespace
}  // namespace warmroot::bootstrap
