// EbsServer: the registry of volumes, their making, and control. Serving is ebs_fuse's, bytes and
// time are ebs_volume's.
#include "tests/sim/ebs.hpp"

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>

#include "bootstrap/base/sector.hpp"
#include "tests/sim/ebs_fuse.hpp"

namespace warmroot::sim {
namespace {

Ok make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return fail(errno_error("making " + directory.string(), error.value()));
  return {};
}

/// A server that was killed leaves a mount that answers nothing but "not connected".
void detach_dead_mount(const std::filesystem::path& mount_dir) {
  struct stat status {};
  if (::stat(mount_dir.c_str(), &status) != 0 && errno == ENOTCONN)
    ::umount2(mount_dir.c_str(), MNT_DETACH);
}

bool is_file_name(const std::string& id) {
  return !id.empty() && id != "." && id != ".." && id.size() <= 255 &&
         id.find('/') == std::string::npos && id.find('\0') == std::string::npos;
}

}  // namespace

class EbsServer::Impl {
 public:
  explicit Impl(EbsOptions given) : options(std::move(given)) {}

  EbsOptions options;
  const EbsClock::time_point epoch = EbsClock::now();
  EbsRegistry registry;
  std::mutex lifecycle;  // start and stop, one at a time
  std::unique_ptr<EbsFuse> fuse;
};

EbsServer::EbsServer(EbsOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

EbsServer::~EbsServer() {
  stop();
}

Ok EbsServer::start() {
  const std::lock_guard lock(impl_->lifecycle);
  if (impl_->fuse) return {};
  detach_dead_mount(impl_->options.mount_dir);
  TRY(make_directory(impl_->options.mount_dir));
  TRY(make_directory(impl_->options.backing_dir));
  TRY_ASSIGN(impl_->fuse, EbsFuse::start(impl_->options.mount_dir, impl_->registry));
  return {};
}

void EbsServer::stop() {
  const std::lock_guard lock(impl_->lifecycle);
  impl_->fuse.reset();
}

Ok EbsServer::create_volume(const std::string& volume_id,
                            const std::filesystem::path& snapshot_image, std::uint64_t size_bytes,
                            const VolumeOptions& own) {
  if (!is_file_name(volume_id))
    return fail(ErrorKind::misconfigured, "\"" + volume_id + "\" cannot be a volume's file name");
  const std::uint64_t size = (size_bytes + kSector - 1) / kSector * kSector;
  if (size == 0) return fail(ErrorKind::misconfigured, "a volume of no bytes: " + volume_id);
  TRY_ASSIGN(auto disk, EbsDisk::open(snapshot_image, impl_->options.backing_dir, size));
  TRY_ASSIGN(const auto data, disk->snapshot_data());
  const VolumeProfile profile = own.profile.value_or(impl_->options.profile);
  if (profile.hydration_unit_kib == 0)
    return fail(ErrorKind::misconfigured, "hydration_unit_kib must not be 0");
  auto volume =
      std::make_shared<EbsVolume>(volume_id, impl_->registry.next_inode(), std::move(disk), data,
                                  profile, own.seed.value_or(impl_->options.seed), impl_->epoch);
  if (own.log_requests) volume->log_requests();
  volume->log_writes(own.write_log);
  if (!impl_->registry.add(std::move(volume)))
    return fail(ErrorKind::misconfigured, "volume " + volume_id + " exists already");
  return {};
}

void EbsServer::delete_volume(const std::string& volume_id) {
  impl_->registry.remove(volume_id);
}

EbsCounters EbsServer::counters(const std::string& volume_id) const {
  const auto volume = impl_->registry.find(volume_id);
  return volume ? volume->counters() : EbsCounters{};
}

void EbsServer::mark_attached(const std::string& volume_id) {
  if (const auto volume = impl_->registry.find(volume_id)) volume->mark_attached();
}

void EbsServer::mark_all_present(const std::string& volume_id) {
  if (const auto volume = impl_->registry.find(volume_id)) volume->mark_all_present();
}

void EbsServer::set_profile(const std::string& volume_id, const VolumeProfile& profile) {
  if (const auto volume = impl_->registry.find(volume_id)) volume->set_profile(profile);
}

std::uint64_t EbsServer::power_cut(const std::string& volume_id) {
  const auto volume = impl_->registry.find(volume_id);
  return volume ? volume->power_cut().value_or(0) : 0;
}

std::vector<FirstTouch> EbsServer::touch_log(const std::string& volume_id) const {
  const auto volume = impl_->registry.find(volume_id);
  return volume ? volume->touch_log() : std::vector<FirstTouch>{};
}

std::vector<DeviceRequest> EbsServer::request_log(const std::string& volume_id) const {
  const auto volume = impl_->registry.find(volume_id);
  return volume ? volume->request_log() : std::vector<DeviceRequest>{};
}

SimTime EbsServer::now() const {
  return EbsClock::now() - impl_->epoch;
}

std::filesystem::path EbsServer::path(const std::string& volume_id) const {
  return impl_->options.mount_dir / volume_id;
}

}  // namespace warmroot::sim
