// The bootstrap on a base with systemd: which command makes it a unit of its own, and what is put
// before it.
#include "bootstrap/own_unit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += word + "\n";
  return text;
}

TEST(OwnUnit, ends_before_a_shutdown_goes_on_and_after_nothing_that_waits_for_cloud_init) {
  const std::string command = joined(in_own_unit("/usr/bin/systemd-run", {"/bin/b", "up"}));
  EXPECT_THAT(command, HasSubstr("/usr/bin/systemd-run\n--scope\n"));
  EXPECT_THAT(command, HasSubstr("--unit=warmroot-bootstrap.scope\n"));
  EXPECT_THAT(command, HasSubstr("-p\nConflicts=shutdown.target\n-p\nBefore=shutdown.target\n"));
  EXPECT_THAT(command, HasSubstr("-p\nDefaultDependencies=no\n"));
  EXPECT_THAT(command, testing::EndsWith("\n/bin/b\nup\n"));
  // What cloud-init.service comes before would be waited for by it and wait for it.
  const std::size_t after = command.find("After=");
  const std::string units = command.substr(after, command.find('\n', after) - after);
  for (const char* later : {"sshd", "ssh.service", "systemd-user-sessions", "network-online",
                            "sysinit.target", "basic.target", "dbus"})
    EXPECT_THAT(units, testing::Not(HasSubstr(later)));
}

TEST(OwnUnit, comes_after_sessions_and_the_volume_s_mounts_so_that_it_ends_before_they_do) {
  std::vector<std::string> paths;
  for (const UnitFile& file : unit_order()) {
    paths.push_back(file.path);
    EXPECT_THAT(file.text, HasSubstr("\n[Unit]\nBefore=warmroot-bootstrap.scope\n"));
  }
  // systemd's names of /run/warmroot/volume and, by their beginning, of what is mounted below it.
  EXPECT_THAT(paths, testing::UnorderedElementsAre(
                         "session-.scope.d/50-warmroot.conf",
                         "run-warmroot-volume.mount.d/50-warmroot.conf",
                         "run-warmroot-volume-.mount.d/50-warmroot.conf"));
}

}  // namespace
}  // namespace warmroot::bootstrap
