#include "bootstrap/mount_exec.hpp"

#include <fcntl.h>
#include <libmount/libmount.h>
#include <sys/mount.h>

#include <cerrno>
#include <memory>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/unmount.hpp"

namespace warmroot::bootstrap {
namespace {

struct ContextDeleter {
  void operator()(libmnt_context* context) const { mnt_free_context(context); }
};
using Context = std::unique_ptr<libmnt_context, ContextDeleter>;

struct TableDeleter {
  void operator()(libmnt_table* table) const { mnt_unref_table(table); }
};
using Table = std::unique_ptr<libmnt_table, TableDeleter>;

struct Call {
  std::string source;
  std::string target;
  std::string filesystem;
  std::string options;
  unsigned long flags = 0;
};

/// One mount(2) by libmount. No mount helpers, no mtab, and no canonical paths: the target is a
/// descriptor.
Ok call_mount(const Call& call) {
  const Context context(mnt_new_context());
  CHECK(context != nullptr);
  libmnt_context* handle = context.get();
  mnt_context_disable_canonicalize(handle, 1);
  mnt_context_disable_helpers(handle, 1);
  mnt_context_disable_mtab(handle, 1);
  // Else it would try again read-only, and say that all is well.
  mnt_context_enable_rwonly_mount(handle, 1);
  if ((!call.source.empty() && mnt_context_set_source(handle, call.source.c_str()) != 0) ||
      mnt_context_set_target(handle, call.target.c_str()) != 0 ||
      (!call.filesystem.empty() && mnt_context_set_fstype(handle, call.filesystem.c_str()) != 0) ||
      (!call.options.empty() && mnt_context_set_options(handle, call.options.c_str()) != 0) ||
      mnt_context_set_mflags(handle, call.flags) != 0)
    return fail(ErrorKind::broken, "libmount refused the arguments of a mount");
  const int status = mnt_context_mount(handle);
  if (status == 0) return {};
  const int error_number = mnt_context_syscall_called(handle)
                               ? mnt_context_get_syscall_errno(handle)
                               : (status < 0 ? -status : EINVAL);
  return fail(errno_error("mount", error_number));
}

std::string descriptor_path(const UniqueFd& fd) {
  return "/proc/self/fd/" + std::to_string(fd.get());
}

Result<UniqueFd> open_target(const RootDirectory& root, const MountStep& step) {
  if (step.target_is_file) {
    TRY(root.make_file(step.target));
    return root.open_inside(step.target, O_PATH);
  }
  TRY(root.make_directories(step.target, step.mode));
  return root.open_inside(step.target, O_PATH | O_DIRECTORY);
}

/// Flags of the mount that has just been made. It has to be opened again: the first descriptor
/// means what lies below.
Ok change_flags(const RootDirectory& root, const MountStep& step, unsigned long flags) {
  TRY_ASSIGN(const UniqueFd mounted, root.open_inside(step.target, O_PATH));
  if (::mount(nullptr, descriptor_path(mounted).c_str(), nullptr, flags, nullptr) != 0)
    return fail_errno("changing the flags of the mount");
  return {};
}

Ok perform_mount(const RootDirectory& root, const MountStep& step) {
  {
    TRY_ASSIGN(const UniqueFd target, open_target(root, step));
    Call call{step.source, descriptor_path(target), step.filesystem, step.options, 0};
    if (step.kind == MountKind::bind) call.flags = MS_BIND;
    if (step.kind == MountKind::bind_tree) call.flags = MS_BIND | MS_REC;
    TRY(call_mount(call));
  }
  if (step.read_only) TRY(change_flags(root, step, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID));
  // Private: what the base mounts there later does not arrive, and our unmount of it, which would
  // take it from the base, does not travel back.
  if (step.kind == MountKind::bind) TRY(change_flags(root, step, MS_PRIVATE));
  // Slave: later mounts of the base arrive here, our unmounts never travel back and take the base's
  // /dev/pts along. Shared on top: mount namespaces that services copied from us follow when we
  // unmount.
  if (step.kind == MountKind::bind_tree) {
    TRY(change_flags(root, step, MS_SLAVE | MS_REC));
    TRY(change_flags(root, step, MS_SHARED | MS_REC));
  }
  return {};
}

bool below(const std::string& path, const std::string& point) {
  return path == point || path.rfind(point + "/", 0) == 0;
}

}  // namespace

Ok mount_device(const std::string& node, const std::string& point, const std::string& filesystem,
                const std::string& options) {
  auto mounted = call_mount({node, point, filesystem, options, 0});
  if (!mounted) return fail(std::move(mounted).error().within(node + " as " + filesystem));
  return {};
}

Ok renew_mount_group(const std::string& directory) {
  const auto change = [&](unsigned long flags, const char* source) {
    return ::mount(source, directory.c_str(), nullptr, flags, nullptr) == 0;
  };
  // Refused where it is no mount. Not looked up: another mount may hide one of the same path.
  if (!change(MS_PRIVATE, nullptr) &&
      (errno != EINVAL || !change(MS_BIND, directory.c_str()) || !change(MS_PRIVATE, nullptr)))
    return fail_errno("making " + directory + " a mount of its own");
  if (!change(MS_SHARED, nullptr)) return fail_errno("sharing " + directory);
  return {};
}

Ok remount(const std::string& point, const std::string& options) {
  auto done = call_mount({{}, point, {}, options, MS_REMOUNT});
  if (!done) return fail(std::move(done).error().within("remounting " + point));
  return {};
}

Ok perform(const MountStep& step, const std::string& point) {
  TRY_ASSIGN(const RootDirectory root, RootDirectory::open(point));
  auto done = step.kind == MountKind::directory ? root.make_directories(step.target, step.mode)
              : step.kind == MountKind::link    ? root.make_link(step.source, step.target)
                                                : perform_mount(root, step);
  if (!done) return fail(std::move(done).error().within(step.name));
  return {};
}

Ok perform_all(const std::vector<MountStep>& steps, const std::string& point,
               const std::function<void(const MountStep&, const Ok&)>& on_step) {
  for (const auto& step : steps) {
    const Ok done = perform(step, point);
    on_step(step, done);
    if (done || !step.required) continue;
    Error error = done.error();
    if (auto undone = unmount_tree(point, true); !undone)
      error.context += "; undoing it failed: " + undone.error().message();
    return fail(std::move(error));
  }
  return {};
}

std::vector<std::string> mounts_at(const std::string& point) {
  std::vector<std::string> points;
  const Table table(mnt_new_table_from_file("/proc/self/mountinfo"));
  libmnt_iter* iterator = mnt_new_iter(MNT_ITER_FORWARD);
  libmnt_fs* entry = nullptr;
  while (table && iterator != nullptr && mnt_table_next_fs(table.get(), iterator, &entry) == 0) {
    const char* target = mnt_fs_get_target(entry);
    if (target != nullptr && below(target, point)) points.emplace_back(target);
  }
  mnt_free_iter(iterator);
  return points;
}

std::optional<dev_t> device_mounted_at(const std::string& point) {
  const Table table(mnt_new_table_from_file("/proc/self/mountinfo"));
  libmnt_fs* entry =
      table ? mnt_table_find_target(table.get(), point.c_str(), MNT_ITER_BACKWARD) : nullptr;
  if (entry == nullptr) return std::nullopt;
  return mnt_fs_get_devno(entry);
}

}  // namespace warmroot::bootstrap
