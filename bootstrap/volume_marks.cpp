#include "bootstrap/volume_marks.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "bootstrap/in_root.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxMark = 4096;

/// No link, nothing that is read for ever, and root's alone.
bool is_as_kept(const RootDirectory& volume, const char* path) {
  const auto file = volume.open_inside(path, O_PATH | O_NOFOLLOW);
  struct stat facts {};
  return file && ::fstat(file->get(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == 0 &&
         (facts.st_mode & 077) == 0;
}

Result<std::string> put_marker(const std::string& text) {
  TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(kVolumePoint));
  TRY(volume.check_same_mount(kVolumeState));  // a session may have made a link of it
  TRY(volume.write(kVolumeMarker, text, 0644));
  return std::string();
}

}  // namespace

std::optional<LoginProof> earlier_proof(const std::string& volume_id) {
  const auto volume = RootDirectory::open(kVolumePoint);
  if (!volume || !volume->check_same_mount(kVolumeState) || !is_as_kept(*volume, kVolumeProof))
    return std::nullopt;
  return counting_proof(volume->read(kVolumeProof, kMaxMark).value_or(""),
                        volume->read(kVolumeMarker, kMaxMark).value_or(""), volume_id);
}

Result<std::string> mark_in_use(const std::string& instance_id) {
  TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(kVolumePoint));
  const std::string before = volume.read(kVolumeMarker, kMaxMark).value_or("first use\n");
  TRY(volume.make_directories(kVolumeState, 0755));
  TRY(volume.check_same_mount(kVolumeState));
  // Of both the directory is synced with the marker: a power cut leaves no proof beside it.
  const Ok forgotten = volume.remove(kVolumeProof);
  TRY(volume.write(kVolumeMarker, open_marker(instance_id), 0644));
  TRY(forgotten);
  return "last time: " + before.substr(0, before.find('\n'));
}

Ok keep_proof(const LoginProof& proof) {
  TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(kVolumePoint));
  TRY(volume.check_same_mount(kVolumeState));
  return volume.write(kVolumeProof, proof_document(proof), 0600);
}

Result<std::string> mark_clean(const std::string& instance_id) {
  return put_marker(clean_marker(instance_id));
}

Result<std::string> take_clean_mark_back(const std::string& instance_id) {
  return put_marker(open_marker(instance_id));
}

}  // namespace warmroot::bootstrap
