// Why and whether the daemon has to let go of the volume. Set by the notice watcher, the reporter
// (wishes) and the signal thread; waited for by the main thread. The first reason stays, and of all
// reasons the earliest end.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

struct StopReason {
  std::string word;              ///< as to_string(ReleaseCause)
  std::string sentence;          ///< for people
  std::int64_t deadline_ms = 0;  ///< when it has to be done, by boottime_ms()
};

class StopRequest {
 public:
  void request(StopReason reason) {
    {
      const std::lock_guard lock(mutex_);
      // The manager says its wish with each of its answers.
      const bool is_news =
          std::none_of(causes_.begin(), causes_.end(),
                       [&](const StopReason& cause) { return cause.word == reason.word; });
      if (is_news) causes_.push_back(reason);
      if (is_news || (reason_ && reason.deadline_ms < reason_->deadline_ms)) ++requests_;
      if (!reason_)
        reason_ = std::move(reason);
      else
        reason_->deadline_ms = std::min(reason_->deadline_ms, reason.deadline_ms);
    }
    changed_.notify_all();
  }
  /// Waits until a stop is requested or the time has passed; true when it is requested.
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return reason_.has_value(); });
  }
  /// How often a stop was requested for another reason, or for an earlier end.
  int requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// Waits for one more than `known` or until the time has passed.
  void wait_for_another(int known, std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return requests_ != known; });
  }
  std::optional<StopReason> reason() const {
    const std::lock_guard lock(mutex_);
    return reason_;
  }
  /// The first reason with another word than this; nullopt: there is none.
  std::optional<StopReason> who_else_asked(std::string_view word) const {
    const std::lock_guard lock(mutex_);
    const auto other = std::find_if(causes_.begin(), causes_.end(),
                                    [&](const StopReason& cause) { return cause.word != word; });
    return other == causes_.end() ? std::nullopt : std::optional(*other);
  }
  /// Whether it was requested for this reason, too, first or not.
  bool was_asked_for(std::string_view word) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(causes_.begin(), causes_.end(),
                       [&](const StopReason& cause) { return cause.word == word; });
  }
  /// Errors: retry_later, with the reason, once a stop is requested.
  Ok check() const {
    if (const auto why = reason())
      return fail(ErrorKind::retry_later, "asked to stop: " + why->sentence);
    return {};
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<StopReason> reason_;
  std::vector<StopReason> causes_;  ///< the first of each word, in the order in which they came
  int requests_ = 0;
};

}  // namespace warmroot::bootstrap
