// One manager per state folder: a lock that ends with its process. Taken by reconcile and serve;
// listings, pause and resume work beside them.
#pragma once

#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::manager {

/// Makes the folder (mode 0700) if need be. Errors: misconfigured.
Ok make_state_folder(const std::string& folder);

/// Held while it lives.
class StateLock {
 public:
  /// Errors: misconfigured, naming the process that holds it.
  static Result<StateLock> take(const std::string& folder);

 private:
  explicit StateLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace warmroot::manager
