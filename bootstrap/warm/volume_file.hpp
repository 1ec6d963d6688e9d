// A file of ours on the volume that it describes: the warm map, the hot list. Every path is
// resolved inside the mounted root, symlinks included, because the volume's content is untrusted;
// nothing stays open between calls, so that it never keeps a root from being unmounted. Called by
// map_keeper and by whoever records.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::warm {

class VolumeFile {
 public:
  /// `path` inside `mount_point`; its directories are made when it is saved. `what` names the
  /// file in errors: "the warm map". The mount is
  /// recognised again by its device number: once it is gone, save refuses instead of writing to
  /// what lies below. Errors: gone when there is no such directory.
  static Result<VolumeFile> at(std::string mount_point, std::string path, std::string what);

  /// For a process that may save at the moment at which another one does: its temporary file is not
  /// the other's. What a kill leaves of it nobody takes away.
  void write_beside_others();

  /// The file's bytes, at most `limit`; nullopt when there is none.
  /// Errors: misconfigured when it is no regular file or larger.
  Result<std::optional<std::string>> load(std::uint64_t limit) const;

  /// Replaces the file: temporary file, fsync, rename, fsync of the directory.
  Ok save(const std::string& bytes) const;

 private:
  Result<UniqueFd> open_root() const;
  Result<UniqueFd> open_directory(bool create) const;

  std::string mount_point_;
  std::string directory_;  // relative to the root, maybe empty
  std::string name_;
  std::string temporary_;
  std::string what_;
  dev_t device_ = 0;
};

}  // namespace warmroot::warm
