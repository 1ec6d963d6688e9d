// See the header.
#include "manager/clock.hpp"

#include <time.h>

namespace warmroot::manager {

namespace {

Milliseconds uptime() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) + Milliseconds(time.tv_nsec / 1'000'000);
}

}  // namespace

Instant wall_clock() {
  static const Milliseconds began = uptime();
  static const Instant wall = calendar_clock();
  return wall + (uptime() - began);
}

Instant calendar_clock() {
  return std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now());
}

}  // namespace warmroot::manager
