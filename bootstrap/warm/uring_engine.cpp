// Reads through one io_uring, without polling modes: first touches take tens of milliseconds. All
// reads end in the same buffer, since nobody looks at the data. The ring reads and does nothing
// else, since a filter of system calls (confine) does not see what goes through it.
#include <liburing.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "bootstrap/warm/read_engine.hpp"

namespace warmroot::warm {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Completions are taken in where they are waited for, without interrupting anybody before (6.1).
/// Disabled at first, so that it can be restricted (5.10). Kernels that do not know a flag refuse
/// it.
constexpr unsigned kRingFlags[] = {
    IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
    IORING_SETUP_R_DISABLED, 0};

__kernel_timespec timespec_of(std::chrono::milliseconds time) {
  __kernel_timespec spec{};
  spec.tv_sec = time.count() / 1000;
  spec.tv_nsec = time.count() % 1000 * 1'000'000;
  return spec;
}

class UringEngine : public ReadEngine {
 public:
  using ReadEngine::wait;
  explicit UringEngine(int fd) : fd_(fd) {}
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  /// Reads in flight keep their pages pinned, so unmapping under them is safe; freed heap memory
  /// would not be.
  ~UringEngine() override {
    if (ring_ready_) io_uring_queue_exit(&ring_);
    if (buffer_ != MAP_FAILED) ::munmap(buffer_, kPieceBytes);
  }

  Ok open(unsigned capacity) {
    buffer_ =
        ::mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer_ == MAP_FAILED) return fail_errno("memory for reads");
    int code = -EINVAL;
    bool restrictable = false;
    for (std::size_t i = 0; code == -EINVAL && i < std::size(kRingFlags); ++i) {
      restrictable = (kRingFlags[i] & IORING_SETUP_R_DISABLED) != 0;
      code = io_uring_queue_init(capacity, &ring_, kRingFlags[i]);
    }
    if (code < 0) return fail(errno_error("io_uring", -code));
    ring_ready_ = true;
    // A ring may exist without the read operation (5.1 to 5.5); asking is no first touch.
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    const bool reads = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
    io_uring_free_probe(probe);
    if (!reads) return fail(errno_error("io_uring without read operations", EOPNOTSUPP));
    if (restrictable) TRY(restrict());
    slots_.resize(capacity);
    for (unsigned i = capacity; i > 0; --i) free_.push_back(i - 1);
    return {};
  }

  std::string_view name() const override { return "io_uring"; }
  unsigned capacity() const override { return static_cast<unsigned>(slots_.size()); }
  unsigned in_flight() const override {
    return static_cast<unsigned>(slots_.size() - free_.size());
  }

  Ok submit(std::span<const ReadRequest> requests) override {
    CHECK(requests.size() <= free_.size());
    const auto now = SteadyClock::now();
    for (const ReadRequest& request : requests) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring_);
      if (entry == nullptr)
        return fail(ErrorKind::broken, "io_uring: the submission queue is full");
      const unsigned slot = free_.back();
      free_.pop_back();
      slots_[slot] = {request.tag, request.length, now};
      io_uring_prep_read(entry, fd_, buffer_, request.length, request.offset);
      io_uring_sqe_set_data64(entry, slot);
    }
    return {};
  }

  /// The kernel may take fewer than offered when it is short of memory; the rest goes with the next
  /// wait.
  Ok flush() override {
    while (io_uring_sq_ready(&ring_) > 0) {
      const int code = io_uring_submit(&ring_);
      if (code == -EINTR) continue;
      if (code == -EAGAIN || code == -EBUSY) return {};
      if (code < 0) return fail(errno_error("io_uring", -code));
    }
    return {};
  }

  Ok wait(std::chrono::milliseconds timeout, std::vector<ReadResult>& results, unsigned batch,
          std::chrono::milliseconds batch_time) override {
    if (in_flight() == 0) return {};
    // For a batch first: mostly that is the one time that this thread is in the kernel. Where a
    // wait's limit is an entry of the ring, liburing waits on without one when fewer have ended.
    batch = std::min(batch, in_flight());
    if (batch > 1 && (ring_.features & IORING_FEAT_EXT_ARG) != 0) {
      const auto first = std::min(timeout, batch_time);
      TRY(wait_for(batch, first));
      timeout -= first;
    } else {
      TRY(flush());
    }
    if (io_uring_cq_ready(&ring_) == 0 && timeout.count() > 0) TRY(wait_for(1, timeout));
    io_uring_cqe* entry = nullptr;
    const auto now = SteadyClock::now();
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_for_each_cqe(&ring_, head, entry) {
      ++seen;
      take(*entry, now, results);
    }
    io_uring_cq_advance(&ring_, seen);
    return {};
  }

 private:
  /// For good. liburing's waits with a limit are a timeout's entry on kernels before 5.11.
  Ok restrict() {
    io_uring_restriction allowed[2] = {};
    allowed[0].opcode = allowed[1].opcode = IORING_RESTRICTION_SQE_OP;
    allowed[0].sqe_op = IORING_OP_READ;
    allowed[1].sqe_op = IORING_OP_TIMEOUT;
    // By hand: Debian 12's shared liburing has neither function.
    const auto order = [this](unsigned what, const void* argument, unsigned count) {
      return ::syscall(SYS_io_uring_register, ring_.ring_fd, what, argument, count);
    };
    if (order(IORING_REGISTER_RESTRICTIONS, allowed, std::size(allowed)) != 0 ||
        order(IORING_REGISTER_ENABLE_RINGS, nullptr, 0) != 0)
      return fail_errno("restricting io_uring to reads");
    return {};
  }

  /// Starts what was submitted, and waits until so many have ended, or fewer in that time.
  Ok wait_for(unsigned count, std::chrono::milliseconds timeout) {
    __kernel_timespec limit = timespec_of(timeout);
    io_uring_cqe* entry = nullptr;
    int code = io_uring_submit_and_wait_timeout(&ring_, &entry, count, &limit, nullptr);
    // The kernel has no memory for more now: what is in flight is waited for all the same.
    if (code == -EAGAIN || code == -EBUSY)
      code = io_uring_wait_cqes(&ring_, &entry, count, &limit, nullptr);
    if (code == -ETIME || code == -EINTR || code == -EAGAIN) return {};
    if (code < 0) return fail(errno_error("io_uring", -code));
    return {};
  }

  struct Slot {
    std::uint64_t tag = 0;
    std::uint32_t length = 0;
    SteadyClock::time_point start;
  };

  void take(const io_uring_cqe& entry, SteadyClock::time_point now,
            std::vector<ReadResult>& results) {
    const auto index = static_cast<unsigned>(io_uring_cqe_get_data64(&entry));
    if (index >= slots_.size()) return;  // liburing's own timeout on kernels before 5.11
    const Slot& slot = slots_[index];
    int error = 0;
    if (entry.res < 0)
      error = -entry.res;
    else if (static_cast<std::uint32_t>(entry.res) < slot.length)
      error = EIO;
    results.push_back(
        {slot.tag, error, std::chrono::duration_cast<std::chrono::microseconds>(now - slot.start)});
    free_.push_back(index);
  }

  int fd_;
  io_uring ring_{};
  bool ring_ready_ = false;
  void* buffer_ = MAP_FAILED;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;
};

}  // namespace

Result<std::unique_ptr<ReadEngine>> make_uring_engine(int fd, unsigned capacity) {
  auto engine = std::make_unique<UringEngine>(fd);
  TRY(engine->open(capacity));
  return std::unique_ptr<ReadEngine>(std::move(engine));
}

}  // namespace warmroot::warm
