// Reads through one io_uring, without polling modes: first touches take tens of milliseconds. All
// reads end in the same buffer, since nobody looks at the data.
#include <liburing.h>
#include <sys/mman.h>

#include <cerrno>

#include "bootstrap/warm/read_engine.hpp"

namespace warmroot::warm {
namespace {

using SteadyClock = std::chrono::steady_clock;

class UringEngine : public ReadEngine {
 public:
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
    if (const int code = io_uring_queue_init(capacity, &ring_, 0); code < 0)
      return fail(errno_error("io_uring", -code));
    ring_ready_ = true;
    // A ring may exist without the read operation (5.1 to 5.5); asking is no first touch.
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    const bool reads = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
    io_uring_free_probe(probe);
    if (!reads) return fail(errno_error("io_uring without read operations", EOPNOTSUPP));
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
    for (const ReadRequest& request : requests) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring_);
      if (entry == nullptr)
        return fail(ErrorKind::broken, "io_uring: the submission queue is full");
      const unsigned slot = free_.back();
      free_.pop_back();
      slots_[slot] = {request.tag, request.length, SteadyClock::now()};
      io_uring_prep_read(entry, fd_, buffer_, request.length, request.offset);
      io_uring_sqe_set_data64(entry, slot);
    }
    return flush();
  }

  Ok wait(std::chrono::milliseconds timeout, std::vector<ReadResult>& results) override {
    TRY(flush());
    if (in_flight() == 0) return {};
    __kernel_timespec limit{};
    limit.tv_sec = timeout.count() / 1000;
    limit.tv_nsec = timeout.count() % 1000 * 1'000'000;
    io_uring_cqe* entry = nullptr;
    const int code = io_uring_wait_cqe_timeout(&ring_, &entry, &limit);
    if (code == -ETIME || code == -EINTR || code == -EAGAIN) return {};
    if (code < 0) return fail(errno_error("io_uring", -code));
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
  struct Slot {
    std::uint64_t tag = 0;
    std::uint32_t length = 0;
    SteadyClock::time_point start;
  };

  /// The kernel may take fewer than offered when it is short of memory; the rest goes with the next
  /// wait.
  Ok flush() {
    while (io_uring_sq_ready(&ring_) > 0) {
      const int code = io_uring_submit(&ring_);
      if (code == -EINTR) continue;
      if (code == -EAGAIN || code == -EBUSY) return {};
      if (code < 0) return fail(errno_error("io_uring", -code));
    }
    return {};
  }

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
