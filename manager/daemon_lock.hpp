// One manager per state folder: a lock that ends with its process. Taken by reconcile and serve;
// listings, pause and resume work beside them.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::manager {

/// Makes the folder (mode 0700) if need be. Errors: misconfigured.
Ok make_state_folder(const std::string& folder);

/// Code of an Error of ours: another process holds the folder, and its end ends this.
inline constexpr const char* kStateHeld = "StateFolderHeld";
inline constexpr std::chrono::seconds kWaitForLock{15};

/// Held while it lives.
class StateLock {
 public:
  /// Errors: misconfigured, naming the process that holds it.
  static Result<StateLock> take(const std::string& folder);
  /// The same, once a command that carries an order out by itself has ended its step: they take
  /// seconds. Logs that it waits. Errors: as take()'s, after kWaitForLock or a stop.
  static Result<StateLock> wait(const std::string& folder, const std::stop_token& stop);

 private:
  explicit StateLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace warmroot::manager
