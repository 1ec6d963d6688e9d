// How files of the base are replaced.
#include "bootstrap/files.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstring>

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

}  // namespace
}  // namespace warmroot::bootstrap
