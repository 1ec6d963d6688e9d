// The bootstraps that were served before an upgrade of this package: an instance that was launched
// with one asks for it by its digest, and takes no other.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "bootstrap/base/result.hpp"
#include "manager/reports.hpp"

namespace warmroot::manager {

/// Files in a folder of the state, the latest few. Const calls may come from several threads.
class EarlierPrograms {
 public:
  using Bytes = std::shared_ptr<const std::string>;

  explicit EarlierPrograms(std::string directory) : directory_(std::move(directory)) {}

  /// Keeps what is served now for those that follow. Errors: the file system's; an instance that is
  /// on its way through the next upgrade then stays on its base.
  Ok keep(const BootstrapProgram& program);
  /// Null: it is not there, or no longer what its name says.
  Bytes of(const std::string& sha256) const;

 private:
  std::string path_of(const std::string& sha256) const;

  std::string directory_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Bytes> read_;  ///< so far, by digest
};

}  // namespace warmroot::manager
