#include "manager/daemon_signals.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cstdlib>

namespace warmroot::manager {
namespace {

constexpr int kSecondSignalStatus = 130;
/// How long the watch's own end may take.
constexpr timespec kSlice{0, 100'000'000};

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

SignalWatch::SignalWatch() {
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::jthread([this](const std::stop_token& ended) { watch(ended); });
}

SignalWatch::~SignalWatch() {
  thread_.request_stop();
  thread_.join();
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void SignalWatch::watch(const std::stop_token& ended) {
  const sigset_t set = watched();
  while (!ended.stop_requested()) {
    const int signal = ::sigtimedwait(&set, nullptr, &kSlice);
    if (signal == SIGHUP) hangup_ = true;
    if (signal != SIGINT && signal != SIGTERM) continue;
    if (stop_.stop_requested()) std::_Exit(kSecondSignalStatus);
    stop_.request_stop();
  }
}

}  // namespace warmroot::manager
