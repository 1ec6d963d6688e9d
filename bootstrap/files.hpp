// Files and child processes of the base system: bounded reads, atomic writes, programs with a time
// limit. Files inside the volume go through in_root instead.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::bootstrap {

/// Milliseconds on CLOCK_BOOTTIME, the one clock of the step timeline.
std::int64_t boottime_ms();

/// The whole file, which may be a file of sysfs or proc. Errors: errno's; broken when it is longer
/// than `limit`.
Result<std::string> read_file(const std::string& path, std::size_t limit);
/// The same for a descriptor that is open already.
Result<std::string> read_all(int fd, std::size_t limit, const std::string& name);
/// Its first whole lines, at most `limit` bytes; empty when it cannot be read. For what others can
/// make as long as they like, as a table of mounts.
std::string read_lines(const std::string& path, std::size_t limit);
/// First line without its end; empty when the file cannot be read. For sysfs attributes.
std::string read_attribute(const std::string& path);

/// What a symbolic link, or one of proc's, leads to, the first 4096 bytes; empty when it cannot be
/// read.
std::string link_text(const std::string& path);

/// What is to replace a file by rename: written beside it, and gone again with this unless it has
/// taken its place.
class StagedFile {
 public:
  /// Not synced yet. It has exactly this mode; owner, group and SELinux label of an existing file
  /// stay. Errors: errno's.
  static Result<StagedFile> write(const std::string& path, std::string_view text, mode_t mode);
  StagedFile(StagedFile&&) noexcept = default;
  StagedFile& operator=(StagedFile&&) = delete;
  ~StagedFile();

  Ok sync() const;
  /// Behind sync: else a power cut could leave an empty file there.
  Ok take_place();

 private:
  StagedFile(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  std::string temporary() const;

  std::string path_;
  UniqueFd file_;  ///< none once it has taken its place
};
/// Beside each other: a flush of the disk is what each waits for, and one does for all.
Ok sync_all(const std::vector<StagedFile>& files);

/// Replaces the file by rename, synced: StagedFile's way in one go.
Ok write_file_atomic(const std::string& path, std::string_view text, mode_t mode);
/// Makes what was renamed into the path's directory last over a power cut: for files that another
/// file must not outlive. A directory that cannot be synced has nothing to lose.
Ok sync_directory_of(const std::string& path);
/// Writes into the existing inode (or creates it): for files that are bind-mounted elsewhere and
/// for sysfs.
Ok write_in_place(const std::string& path, std::string_view text);
Ok write_fully(int fd, std::string_view text, const std::string& name);
/// Replaces a symbolic link by rename.
Ok replace_symlink(const std::string& target, const std::string& path);
/// Creates one directory with exactly this mode; an existing directory is fine.
Ok make_directory(const std::string& path, mode_t mode);
/// Shows the names in a directory without "." and "..", one by one, until `show` says false. False
/// when it did; true also where the directory cannot be read.
bool each_name(const std::string& path, const std::function<bool(const char*)>& show);
/// All of them; empty when it cannot be read.
std::vector<std::string> list_directory(const std::string& path);

/// Asked several times a second while a child runs: true ends the child, politely at first.
using Cancelled = std::function<bool()>;

/// Between fork and exec: whatever is open from `first` on is closed by the exec, also what a
/// library or whoever started this process left open for children. Async-signal-safe; reads /proc
/// before Linux 5.11.
void close_at_exec(int first);

struct ProgramResult {
  int exit_status = 0;  ///< 128 + signal when killed
  std::string output;   ///< standard output and standard error, the first 256 KiB
};

/// Runs a program found by absolute path with standard input from /dev/null; with `root_fd` in that
/// directory as its root. It inherits no other descriptor. Errors: wait_child's, errno's when it
/// could not be started.
Result<ProgramResult> run_program(const std::vector<std::string>& arguments,
                                  std::chrono::milliseconds limit, const Cancelled& cancelled = {},
                                  int root_fd = -1);

/// Waits for a child. Returns the raw wait status. Errors: retry_later when the limit has passed or
/// it was cancelled, and the child has been killed. One that waits for a disk does not end by that:
/// after some seconds it is given up, which the error says. It goes on holding what it had open,
/// and may write once more when the disk answers.
Result<int> wait_child(pid_t child, std::chrono::milliseconds limit,
                       const Cancelled& cancelled = {});
/// Nobody waits for this child of ours any more.
void give_up(pid_t child);
/// Takes the wait status of those that were given up and have ended since. wait_child does it, too;
/// for whoever lives long and may start nobody any more. Never waits.
void reap_given_up();

/// First of the absolute paths that is an executable file; empty when none is.
std::string first_executable(const std::vector<std::string>& paths);

}  // namespace warmroot::bootstrap
