// A closed loop of O_DIRECT reads on io_uring. See the header.
#include "tests/sim/ebs_probe.hpp"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::sim {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kAlignment = 4 * kKiB;

struct Ring {
  io_uring ring{};
  bool ready = false;
  ~Ring() {
    if (ready) io_uring_queue_exit(&ring);
  }
};

/// One reader's state; `free_slots` are buffers that no request uses.
class ClosedLoop {
 public:
  ClosedLoop(int fd, std::span<const std::uint64_t> offsets, std::uint64_t length, char* buffers,
             io_uring& ring)
      : fd_(fd), offsets_(offsets), length_(length), buffers_(buffers), ring_(ring) {
    started_.resize(offsets.size());
    result_.latencies.resize(offsets.size());
    slot_of_.resize(offsets.size());
  }

  void submit(unsigned slot) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    CHECK(entry != nullptr);
    slot_of_[next_] = slot;
    started_[next_] = Clock::now();
    io_uring_prep_read(entry, fd_, buffers_ + slot * length_, static_cast<unsigned>(length_),
                       offsets_[next_]);
    io_uring_sqe_set_data64(entry, next_++);
  }

  Result<ProbeResult> run(unsigned depth) {
    const Clock::time_point begin = Clock::now();
    for (unsigned slot = 0; slot < depth && next_ < offsets_.size(); ++slot) submit(slot);
    for (std::size_t done = 0; done < offsets_.size();) {
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      if (submitted < 0 && submitted != -EINTR)
        return fail(errno_error("io_uring_submit_and_wait", -submitted));
      io_uring_cqe* completion = nullptr;
      while (io_uring_peek_cqe(&ring_, &completion) == 0) {
        const std::uint64_t index = io_uring_cqe_get_data64(completion);
        const int got = completion->res;
        io_uring_cqe_seen(&ring_, completion);
        if (got < 0) return fail(errno_error("reading the probed file", -got));
        if (static_cast<std::uint64_t>(got) != length_)
          return fail(ErrorKind::broken, "a short read at " + std::to_string(offsets_[index]));
        result_.latencies[index] = Clock::now() - started_[index];
        ++done;
        if (next_ < offsets_.size()) submit(slot_of_[index]);
      }
    }
    result_.elapsed = Clock::now() - begin;
    return std::move(result_);
  }

 private:
  int fd_;
  std::span<const std::uint64_t> offsets_;
  std::uint64_t length_;
  char* buffers_;
  io_uring& ring_;
  std::size_t next_ = 0;
  std::vector<Clock::time_point> started_;
  std::vector<unsigned> slot_of_;
  ProbeResult result_;
};

}  // namespace

Result<ProbeResult> probe_closed_loop(const std::filesystem::path& path,
                                      std::span<const std::uint64_t> offsets, std::uint64_t length,
                                      unsigned depth) {
  CHECK(depth > 0 && length % kAlignment == 0);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!file) return fail_errno("opening " + path.string());
  const std::unique_ptr<void, decltype(&std::free)> buffers(
      std::aligned_alloc(kAlignment, depth * length), &std::free);
  CHECK(buffers != nullptr);
  Ring ring;  // after the buffers: its end waits for what the kernel may still write there
  const int made = io_uring_queue_init(depth, &ring.ring, 0);
  if (made < 0) return fail(errno_error("io_uring_queue_init", -made));
  ring.ready = true;
  return ClosedLoop(file.get(), offsets, length, static_cast<char*>(buffers.get()), ring.ring)
      .run(depth);
}

std::string self_check_table(std::span<const SelfCheckPoint> points, unsigned hydration_unit_kib) {
  const double mib = hydration_unit_kib / 1024.0;
  std::string text = "queue depth   formula    replay  measured MiB/s   deviation\n";
  for (const SelfCheckPoint& point : points) {
    char line[96];
    std::snprintf(line, sizeof line, "%11u %9.1f %9.1f %9.1f        %+6.1f %%\n", point.depth,
                  point.formula_blocks_s * mib, point.replay_blocks_s * mib,
                  point.measured_blocks_s * mib, point.deviation() * 100);
    text += line;
  }
  return text;
}

}  // namespace warmroot::sim
