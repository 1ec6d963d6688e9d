#include "bootstrap/volume_marks.hpp"

#include "bootstrap/in_root.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxMark = 4096;

}  // namespace

Result<std::string> mark_in_use(const std::string& instance_id) {
  TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(kVolumePoint));
  const std::string before = volume.read(kVolumeMarker, kMaxMark).value_or("first use\n");
  TRY(volume.make_directories(kVolumeState, 0755));
  TRY(volume.check_same_mount(kVolumeState));
  TRY(volume.write(kVolumeMarker, "open " + instance_id + "\n", 0644));
  return "last time: " + before.substr(0, before.find('\n'));
}

Result<std::string> mark_clean(const std::string& instance_id) {
  TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(kVolumePoint));
  TRY(volume.check_same_mount(kVolumeState));  // a session may have made a link of it
  TRY(volume.write(kVolumeMarker, "clean " + instance_id + "\n", 0644));
  return std::string();
}

}  // namespace warmroot::bootstrap
