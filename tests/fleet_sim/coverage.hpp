// What the seeds of a batch have produced: actions with their outcomes, notes, classes of errors,
// faults. Of faults of answers: how many were armed, and how many calls they hit. Says which never
// were.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "manager/reconciler.hpp"

namespace warmroot::fleet {

/// Ways that the names of calls do not tell. Several volumes are in one claim only where more nodes
/// than a small world has come into being together.
inline constexpr const char* kVolumesWithLaunch = "volumes with the launch";
inline constexpr const char* kClaimOfSeveral = "several in one claim";
inline constexpr const char* kEndedAfterReboot = "ended as it never came back from its reboot";

class Coverage {
 public:
  void add(const std::string& kind, const std::string& name, std::uint64_t count = 1) {
    counts_[kind][name] += count;
  }
  void add(const manager::TickReport& report);
  void merge(const Coverage& other);

  const std::map<std::string, std::map<std::string, std::uint64_t>>& counts() const {
    return counts_;
  }
  /// "note frozen" and so on, of what can be and was not.
  std::vector<std::string> missing(const std::vector<std::string>& faults) const;
  bool has(const std::string& kind, const std::string& name) const;

 private:
  std::map<std::string, std::map<std::string, std::uint64_t>> counts_;
};

}  // namespace warmroot::fleet
