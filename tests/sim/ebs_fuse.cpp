// libfuse low-level operations, the session's threads and its end. See the header. Traps met here:
// the kernel sends a FUSE "flush" at every close(), also of a killed QEMU, which is no disk flush;
// without max_background only 12 requests are under way; an aborted connection is what frees tasks
// that hang on a server that is gone.
#define FUSE_USE_VERSION 35
#include "tests/sim/ebs_fuse.hpp"

#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace warmroot::sim {
namespace {

/// Requests under way on the whole connection, all volumes together: 64 NVMe disks with all their
/// 256 tags taken. The kernel's default of 12 would be the queue depth of every volume.
constexpr unsigned kMaxBackground = 16'384;
/// Sizes and names change only by our own calls; a lookup is always asked, so that a deleted volume
/// is gone at once.
constexpr double kAttributeSeconds = 3600;
constexpr double kEntrySeconds = 0;
/// Two of each: a copy of 1 MiB by one thread must not delay the others' answers. More would not
/// help two processors.
constexpr unsigned kReceivers = 2;
constexpr unsigned kTimerThreads = 2;

using Volume = EbsRegistry::Volume;

EbsFuse& server_of(fuse_req_t request) {
  return *static_cast<EbsFuse*>(fuse_req_userdata(request));
}

EbsOpenFile& opened(const fuse_file_info* file) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): libfuse keeps a handle as a number
  return *reinterpret_cast<EbsOpenFile*>(file->fh);
}

struct stat directory_attributes() {
  struct stat attributes {};
  attributes.st_ino = FUSE_ROOT_ID;
  attributes.st_mode = S_IFDIR | 0755;
  attributes.st_nlink = 2;
  return attributes;
}

struct stat volume_attributes(const EbsVolume& volume) {
  struct stat attributes {};
  attributes.st_ino = volume.inode();
  attributes.st_mode = S_IFREG | 0600;
  attributes.st_nlink = 1;
  attributes.st_size = static_cast<off_t>(volume.size());
  attributes.st_blksize = kDiskPage;
  attributes.st_blocks = static_cast<blkcnt_t>(volume.size() / 512);
  return attributes;
}

void on_init(void*, fuse_conn_info* connection) {
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kMaxBackground;
  if ((connection->capable & FUSE_CAP_ASYNC_DIO) != 0) connection->want |= FUSE_CAP_ASYNC_DIO;
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const Volume volume =
      parent == FUSE_ROOT_ID ? server_of(request).registry().find(std::string(name)) : nullptr;
  if (!volume) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = volume->inode();
  entry.attr = volume_attributes(*volume);
  entry.attr_timeout = kAttributeSeconds;
  entry.entry_timeout = kEntrySeconds;
  fuse_reply_entry(request, &entry);
}

void on_getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info* file) {
  if (inode == FUSE_ROOT_ID) {
    const struct stat attributes = directory_attributes();
    fuse_reply_attr(request, &attributes, kAttributeSeconds);
    return;
  }
  const Volume volume =
      file != nullptr ? opened(file).volume : server_of(request).registry().find(inode);
  if (!volume) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  const struct stat attributes = volume_attributes(*volume);
  fuse_reply_attr(request, &attributes, kAttributeSeconds);
}

void on_open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* file) {
  Volume volume = server_of(request).registry().find(inode);
  if (!volume) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  EbsFuse& server = server_of(request);
  EbsOpenFile* handle = server.open_handle(std::move(volume));
  file->fh = reinterpret_cast<std::uint64_t>(handle);
  file->direct_io = 1;
  file->noflush = 1;
  if (fuse_reply_open(request, file) != 0) server.close_handle(handle);  // no release will come
}

void on_release(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  server_of(request).close_handle(&opened(file));
  fuse_reply_err(request, 0);
}

void answer_read(fuse_req_t request, const EbsVolume& volume, ByteRange range) {
  thread_local std::vector<char> buffer;
  buffer.resize(std::max<std::size_t>(buffer.size(), range.length));
  const Ok read = volume.read_bytes(range.offset, std::span(buffer).first(range.length));
  if (read)
    fuse_reply_buf(request, buffer.data(), range.length);
  else
    fuse_reply_err(request, EIO);
}

void on_read(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* file) {
  const auto& [volume, opener] = opened(file);
  const auto start = std::min(static_cast<std::uint64_t>(offset), volume->size());
  const ByteRange range{start, std::min<std::uint64_t>(size, volume->size() - start)};
  server_of(request).timer().schedule(
      volume->begin_read(range, opener),
      [request, kept = volume, range] { answer_read(request, *kept, range); });
}

void on_write(fuse_req_t request, fuse_ino_t, const char* bytes, std::size_t size, off_t offset,
              fuse_file_info* file) {
  const auto& [volume, opener] = opened(file);
  const auto start = static_cast<std::uint64_t>(offset);
  if (start + size > volume->size()) {
    fuse_reply_err(request, ENOSPC);  // a device does not grow
    return;
  }
  const auto due = volume->write(start, {bytes, size}, opener);
  if (!due) {
    fuse_reply_err(request, EIO);
    return;
  }
  server_of(request).timer().schedule(*due, [request, size] { fuse_reply_write(request, size); });
}

void on_fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info* file) {
  const auto& [volume, opener] = opened(file);
  server_of(request).timer().schedule(volume->flush(opener),
                                      [request] { fuse_reply_err(request, 0); });
}

void on_opendir(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  fuse_reply_open(request, file);
}

void on_readdir(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info*) {
  std::vector<std::pair<std::string, struct stat>> entries = {{".", directory_attributes()},
                                                              {"..", directory_attributes()}};
  for (const Volume& volume : server_of(request).registry().all())
    entries.emplace_back(volume->id(), volume_attributes(*volume));
  std::vector<char> buffer(size);
  std::size_t used = 0;
  for (auto i = static_cast<std::size_t>(offset); i < entries.size(); ++i) {
    const std::size_t entry =
        fuse_add_direntry(request, buffer.data() + used, size - used, entries[i].first.c_str(),
                          &entries[i].second, static_cast<off_t>(i + 1));
    if (entry > size - used) break;
    used += entry;
  }
  fuse_reply_buf(request, buffer.data(), used);
}

void on_statfs(fuse_req_t request, fuse_ino_t) {
  struct statvfs status {};
  status.f_bsize = kDiskPage;
  status.f_frsize = kDiskPage;
  status.f_namemax = 255;
  fuse_reply_statfs(request, &status);
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops table{};
  table.init = on_init;
  table.lookup = on_lookup;
  table.getattr = on_getattr;
  table.open = on_open;
  table.release = on_release;
  table.read = on_read;
  table.write = on_write;
  table.fsync = on_fsync;
  table.opendir = on_opendir;
  table.readdir = on_readdir;
  table.statfs = on_statfs;
  return table;  // fallocate, lseek and the rest: libfuse answers ENOSYS, which the kernel
                 // understands
}

}  // namespace

std::uint64_t EbsRegistry::next_inode() {
  const std::lock_guard lock(mutex_);
  return ++inodes_;
}

bool EbsRegistry::add(Volume volume) {
  const std::lock_guard lock(mutex_);
  const std::string id = volume->id();
  return volumes_.emplace(id, std::move(volume)).second;
}

void EbsRegistry::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  volumes_.erase(id);
}

EbsRegistry::Volume EbsRegistry::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = volumes_.find(id);
  return found == volumes_.end() ? nullptr : found->second;
}

EbsRegistry::Volume EbsRegistry::find(std::uint64_t inode) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      volumes_, [inode](const auto& entry) { return entry.second->inode() == inode; });
  return found == volumes_.end() ? nullptr : found->second;
}

std::vector<EbsRegistry::Volume> EbsRegistry::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Volume> volumes;
  for (const auto& [id, volume] : volumes_) volumes.push_back(volume);
  return volumes;
}

EbsFuse::EbsFuse(std::filesystem::path mount_dir, EbsRegistry& registry)
    : mount_dir_(std::move(mount_dir)), registry_(registry), timer_(kTimerThreads) {}

Result<std::unique_ptr<EbsFuse>> EbsFuse::start(const std::filesystem::path& mount_dir,
                                                EbsRegistry& registry) {
  std::unique_ptr<EbsFuse> server(new EbsFuse(mount_dir, registry));
  TRY(server->mount());
  for (unsigned i = 0; i < kReceivers; ++i)
    server->receivers_.emplace_back([raw = server.get()] { raw->receive(); });
  return server;
}

EbsOpenFile* EbsFuse::open_handle(EbsRegistry::Volume volume) {
  const unsigned opener = volume->next_opener();
  auto handle = std::make_unique<EbsOpenFile>(EbsOpenFile{std::move(volume), opener});
  EbsOpenFile* raw = handle.get();
  const std::lock_guard lock(handles_mutex_);
  handles_.emplace(raw, std::move(handle));
  return raw;
}

void EbsFuse::close_handle(EbsOpenFile* handle) {
  const std::lock_guard lock(handles_mutex_);
  handles_.erase(handle);
}

Ok EbsFuse::mount() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return fail_errno("making an eventfd");
  // Asked here for the sake of the message: libfuse only prints to stderr.
  const UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) return fail_errno("opening /dev/fuse (is FUSE in this kernel, and are you root?)");
  static const fuse_lowlevel_ops kOperations = operations();
  std::string arguments[] = {"warmroot-ebs", "-ofsname=warmroot-ebs,subtype=warmroot"};
  char* argv[] = {arguments[0].data(), arguments[1].data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(2, argv);
  session_ = fuse_session_new(&args, &kOperations, sizeof kOperations, this);
  fuse_opt_free_args(&args);
  if (session_ == nullptr) return fail(ErrorKind::broken, "libfuse refused the session's options");
  if (fuse_session_mount(session_, mount_dir_.c_str()) != 0)
    return fail(ErrorKind::refused, "mounting a FUSE file system on " + mount_dir_.string() +
                                        " failed; it needs root, or fusermount3");
  mounted_ = true;
  // Non-blocking, so that the receivers can wait for the wake-up as well.
  const int fd = fuse_session_fd(session_);
  if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
    return fail_errno("making the FUSE device non-blocking");
  return {};
}

void EbsFuse::receive() {
  become_device_thread();
  fuse_buf buffer{};
  while (!stopping_ && !fuse_session_exited(session_)) {
    const int got = fuse_session_receive_buf(session_, &buffer);
    if (got > 0) {
      fuse_session_process_buf(session_, &buffer);
    } else if (got == -EAGAIN) {
      pollfd waiting[] = {{fuse_session_fd(session_), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      ::poll(waiting, 2, -1);
    } else if (got != -EINTR) {
      break;  // unmounted, or the connection was aborted
    }
  }
  std::free(buffer.mem);
}

void EbsFuse::stop() {
  if (session_ == nullptr) return;
  timer_.hurry();  // nobody waits for a tail while we unmount
  // While the receivers are there to be asked. It fails where a file is open, or without root.
  if (mounted_) ::umount2(mount_dir_.c_str(), 0);
  stopping_ = true;
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  for (std::thread& thread : receivers_) thread.join();
  receivers_.clear();
  timer_.stop();
  // Closes /dev/fuse, which aborts the connection: whoever still has a file open gets ENOTCONN
  // instead of hanging. Then it detaches a mount that is still there. Not calling it would leak the
  // mount point's name.
  if (std::exchange(mounted_, false)) fuse_session_unmount(session_);
  fuse_session_destroy(std::exchange(session_, nullptr));
}

}  // namespace warmroot::sim
