// The FUSE side of EbsServer: one flat directory of volume files over libfuse's low-level API.
// Requests are read by a few threads, answered by timer threads when the volume's model says so.
// Called by EbsServer only.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "tests/sim/ebs_timer.hpp"
#include "tests/sim/ebs_volume.hpp"

struct fuse_session;

namespace warmroot::sim {

/// The volumes by name. Thread-safe. Inode numbers are never used twice.
class EbsRegistry {
 public:
  using Volume = std::shared_ptr<EbsVolume>;

  std::uint64_t next_inode();
  /// False when the id is in use.
  bool add(Volume volume);
  void remove(const std::string& id);
  /// Null when unknown.
  Volume find(const std::string& id) const;
  Volume find(std::uint64_t inode) const;
  std::vector<Volume> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Volume> volumes_;
  std::uint64_t inodes_ = 1;  // 1 is the directory
};

/// One open() of a volume's file.
struct EbsOpenFile {
  EbsRegistry::Volume volume;
  unsigned opener = 0;  ///< its number in the volume's request log
};

class EbsFuse {
 public:
  /// Mounts on `mount_dir` and serves `registry` until the destructor or stop(). Errors: refused,
  /// broken.
  static Result<std::unique_ptr<EbsFuse>> start(const std::filesystem::path& mount_dir,
                                                EbsRegistry& registry);
  ~EbsFuse() { stop(); }

  /// Answers what waits, unmounts (detaches where files are open) and ends the threads; idempotent.
  void stop();

  // For the operations:
  EbsRegistry& registry() { return registry_; }
  EbsTimer& timer() { return timer_; }
  /// An open file's handle: keeps a deleted volume alive until close_handle(), or until the server
  /// ends.
  EbsOpenFile* open_handle(EbsRegistry::Volume volume);
  void close_handle(EbsOpenFile* handle);

 private:
  EbsFuse(std::filesystem::path mount_dir, EbsRegistry& registry);
  Ok mount();
  void receive();

  std::filesystem::path mount_dir_;
  EbsRegistry& registry_;
  EbsTimer timer_;
  std::mutex handles_mutex_;
  std::map<EbsOpenFile*, std::unique_ptr<EbsOpenFile>> handles_;
  fuse_session* session_ = nullptr;
  bool mounted_ = false;
  UniqueFd wake_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> receivers_;
};

}  // namespace warmroot::sim
