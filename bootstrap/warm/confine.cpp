#include "bootstrap/warm/confine.hpp"

#include <linux/audit.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fsmap.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace warmroot::warm {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the number of this architecture in linux/audit.h is missing"
#endif

constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
/// Both architectures are little-endian: the low half of an argument comes first.
constexpr std::uint32_t kFirstArgument = offsetof(seccomp_data, args);
constexpr std::uint32_t kArgumentBytes = sizeof(std::uint64_t);

/// Allowed whatever their arguments are. Paths are behind pointers, which no filter can follow: the
/// thread still opens files as root does.
constexpr long kPlain[] = {
    // Reads and their ends, the most frequent first: old kernels go through the list at each call.
    SYS_io_uring_enter,
    SYS_futex,
    SYS_pread64,
    SYS_read,
    SYS_clock_gettime,
    SYS_ppoll,
    // Files of the root, the map on the volume, status and log of the base.
    SYS_write,
    SYS_openat,
    SYS_openat2,
    SYS_close,
    SYS_fstat,
    SYS_fstatfs,
    SYS_newfstatat,
    SYS_statx,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_lseek,
    SYS_fcntl,
    SYS_fsync,
    SYS_fdatasync,
    SYS_renameat,
    SYS_renameat2,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_fchmod,
    SYS_fchown,
#if defined(__x86_64__)
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_rename,
    SYS_unlink,
    SYS_mkdir,
    SYS_poll,
    SYS_time,
#endif
    // Memory and threads, as malloc and pthread_create use them.
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_set_robust_list,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_gettid,
    SYS_getpid,
    SYS_getrandom,
    // A thread has no capability by these that it was not permitted before.
    SYS_capget,
    SYS_capset,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_gettimeofday,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
#ifdef SYS_rseq
    SYS_rseq,
#endif
};

class Program {
 public:
  Program() {
    load(offsetof(seccomp_data, arch));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
    give(kRefuse);
    load(offsetof(seccomp_data, nr));
  }

  void answer(long call, std::uint32_t action) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    give(action);
  }

  /// Allowed when the low half of the argument, masked, is one of these values. The kernel looks at
  /// no more of those that are asked about here.
  void allow_if(long call, std::uint32_t argument, std::uint32_t mask,
                std::initializer_list<std::uint32_t> values) {
    const auto body = static_cast<std::uint8_t>(3 + 2 * values.size());
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, body));
    load(kFirstArgument + argument * kArgumentBytes);
    code_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    for (const std::uint32_t value : values) {
      code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
      give(SECCOMP_RET_ALLOW);
    }
    give(kRefuse);
  }

  std::vector<sock_filter> end() && {
    give(kRefuse);
    return std::move(code_);
  }

 private:
  void load(std::size_t offset) {
    code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  }
  void give(std::uint32_t action) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }

  std::vector<sock_filter> code_;
};

}  // namespace

std::vector<sock_filter> warmer_filter(pid_t own) {
  constexpr std::uint32_t kAll = UINT32_MAX;
  constexpr std::uint32_t kThread = CLONE_VM | CLONE_THREAD;
  Program program;
  for (const long call : kPlain) program.answer(call, SECCOMP_RET_ALLOW);
  // What is free, where a file lies, how large a disk is: no discard, no command to a controller.
  program.allow_if(
      SYS_ioctl, 1, kAll,
      {static_cast<std::uint32_t>(FS_IOC_GETFSMAP), static_cast<std::uint32_t>(FS_IOC_FIEMAP),
       static_cast<std::uint32_t>(BLKGETSIZE64)});
  program.allow_if(SYS_mmap, 2, PROT_EXEC, {0});
  program.allow_if(SYS_mprotect, 2, PROT_EXEC, {0});
  // Threads, no processes. clone3 hides its flags behind a pointer; without it glibc takes clone.
  program.allow_if(SYS_clone, 0, kThread, {kThread});
  program.answer(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  // Whether a process is there (block_trace), and abort.
  program.allow_if(SYS_kill, 1, kAll, {0});
  program.allow_if(SYS_tgkill, 0, kAll, {static_cast<std::uint32_t>(own)});
  return std::move(program).end();
}

Ok confine_thread() {
#ifdef WARMROOT_SANITIZED
  // A sanitizer's runtime makes calls of its own, such as pipe() to learn whether memory is there,
  // and takes their refusal for a fault of ours.
  return {};
#else
  const std::vector<sock_filter> code = warmer_filter(::getpid());
  const sock_fprog program{static_cast<unsigned short>(code.size()),
                           const_cast<sock_filter*>(code.data())};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("PR_SET_NO_NEW_PRIVS");
  // Before 5.16 a filter alone makes a thread slower, by what the CPU may not guess any more.
  long done =
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
  if (done != 0 && errno == EINVAL)  // 4.16 and older do not know the flag
    done = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
  if (done != 0) return fail_errno("a seccomp filter");
  return {};
#endif
}

}  // namespace warmroot::warm
