// What is known about ways to fill volumes at one look: quotas in use, golden volumes and their
// copies, fast snapshot restore. Gathered once a plan, and used up by the plan's own calls. Used by
// stocking.cpp, and by moving.cpp to say beforehand what it will do.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "manager/core/draft.hpp"
#include "manager/core/filling.hpp"

namespace warmroot::core {

class FillingFacts {
 public:
  explicit FillingFacts(const Draft& draft);

  /// For a volume of the pool's source in `zone`; `subject` is what its create is for.
  FillFacts of(Draft& draft, const PoolDraft& pool, const std::string& zone,
               const std::string& subject, bool may_copy) const;
  /// The golden volume that `of` had in mind; empty: none.
  static std::string golden_of(const Draft& draft, const PoolDraft& pool, const std::string& zone);
  /// The plan makes this call.
  void spend(const Draft& draft, const PoolDraft& pool, const std::string& zone, const Fill& fill);

 private:
  std::optional<Milliseconds> copy_after(const std::string& golden) const;

  int rate_used_mib_s_ = 0;
  std::map<std::string, Milliseconds> copying_;  ///< by source: how long its copy still goes on
  std::map<std::pair<std::string, std::string>, int>
      made_lately_;               ///< by snapshot and zone: creates of the last hour
  std::set<std::string> unseen_;  ///< pools with a new volume that EC2 does not show yet
};

/// GiB that have to be read for a volume of the pool's source.
int data_gib_of(const Draft& draft, const PoolDraft& pool);

/// EC2 says that the volume holds all its blocks.
bool is_filled(const Draft& draft, const std::string& volume_id);

}  // namespace warmroot::core
