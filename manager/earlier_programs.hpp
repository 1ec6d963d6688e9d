// The bootstraps that were served before an upgrade of this package: an instance that was launched
// with one asks for it by its digest, and takes no other.
#pragma once

#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "manager/reports.hpp"

namespace warmroot::manager {

/// Files in a folder of the state, the latest few. Const calls may come from several threads.
class EarlierPrograms {
 public:
  explicit EarlierPrograms(std::string directory) : directory_(std::move(directory)) {}

  /// Keeps what is served now for those that follow. Errors: the file system's; an instance that is
  /// on its way through the next upgrade then stays on its base.
  Ok keep(const BootstrapProgram& program);
  /// nullopt: it is not there, or no longer what its name says.
  std::optional<std::string> of(const std::string& sha256) const;

 private:
  std::string path_of(const std::string& sha256) const;

  std::string directory_;
};

}  // namespace warmroot::manager
