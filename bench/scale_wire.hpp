// Frames between the two processes of scale_bench: the world (region, clock, faults) and the
// manager under test, which runs alone in its process so that its CPU and memory are its own.
// Integers are native, for both ends are one machine.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace warmroot::bench {

/// Grows as values are put, shrinks as they are taken, in the same order.
class Frame {
 public:
  Frame() = default;
  explicit Frame(std::string bytes) : bytes_(std::move(bytes)) {}

  Frame& put(std::int64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Frame& put(std::string_view text) {
    put(static_cast<std::int64_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  std::int64_t number() {
    std::int64_t value = 0;
    if (at_ + sizeof value > bytes_.size()) throw std::runtime_error("a frame ends early");
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string text() {
    const auto size = static_cast<std::size_t>(number());
    if (at_ + size > bytes_.size()) throw std::runtime_error("a frame ends early");
    std::string out = bytes_.substr(at_, size);
    at_ += size;
    return out;
  }
  const std::string& bytes() const { return bytes_; }
  /// All bytes, for a frame that is one text.
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

inline void transfer(int fd, char* data, std::size_t size, bool in) {
  while (size > 0) {
    const ssize_t done = in ? ::read(fd, data, size) : ::write(fd, data, size);
    if (done <= 0) throw std::runtime_error("the other process of the bench is gone");
    data += done;
    size -= static_cast<std::size_t>(done);
  }
}

inline void send_frame(int fd, const Frame& frame) {
  std::int64_t size = static_cast<std::int64_t>(frame.bytes().size());
  transfer(fd, reinterpret_cast<char*>(&size), sizeof size, false);
  transfer(fd, const_cast<char*>(frame.bytes().data()), frame.bytes().size(), false);
}

inline Frame receive_frame(int fd) {
  std::int64_t size = 0;
  transfer(fd, reinterpret_cast<char*>(&size), sizeof size, true);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  transfer(fd, bytes.data(), bytes.size(), true);
  return Frame(std::move(bytes));
}

// First number of each frame from the manager.
inline constexpr std::int64_t kPost = 1;      ///< count, bodies
inline constexpr std::int64_t kSleep = 2;     ///< milliseconds
inline constexpr std::int64_t kFinished = 3;  ///< the manager's own figures as JSON

}  // namespace warmroot::bench
