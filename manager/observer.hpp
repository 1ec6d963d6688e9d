// Looks at EC2 for the planner: listings by tag in pages, what was recorded and is not shown by id,
// and cached lookups of AMIs, snapshots, zones and subnets. Changes nothing. Called by the
// reconciler once a tick.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"
#include "manager/observer_filling.hpp"

namespace warmroot::manager {

/// Items a page: a page of 1,000 instances is 8 MB of XML and 60 ms to parse.
inline constexpr int kPageSize = 200;
/// Up to this many volumes and instances every look is a full listing; beyond it, full listings
/// come every kFullLookEvery and looks between them ask by id for what is in transition.
inline constexpr std::size_t kSmallWorld = 400;
inline constexpr Milliseconds kFullLookEvery{5'000};
/// The same while EC2's events are heard: they name what has changed. Volumes have no events.
inline constexpr Milliseconds kFullLookWithEvents{60'000};
/// How long lookups are believed: AMIs and subnets hardly change; what was not found may be about
/// to be shared.
inline constexpr Milliseconds kFoundFor{600'000};
inline constexpr Milliseconds kNotFoundFor{15'000};
inline constexpr Milliseconds kTransientFor{2'000};
/// Status checks run once a minute at EC2.
inline constexpr Milliseconds kStatusEvery{30'000};

struct ObserverOptions {
  int page_size = kPageSize;
  std::size_t small_world = kSmallWorld;
};

struct Look {
  core::Observed observed;     ///< without reports and user-data
  std::optional<Error> blind;  ///< why the listings could not be read to their end
};

class Observer {
 public:
  /// `ec2` has to outlive the observer.
  explicit Observer(aws::Ec2& ec2, ObserverOptions options = {})
      : ec2_(ec2), options_(options), filling_(ec2) {}

  /// One look. Never fails: what could not be read makes `complete` false and is noted. Instances
  /// in `heard` are asked for by id, with their volumes.
  Look look(const core::Desired& desired, const core::LedgerView& ledger, Instant now,
            const core::Heard& heard = {});

 private:
  template <typename T>
  struct Cached {
    core::Lookup<T> lookup;
    Instant until{};
  };

  Ok list_everything(const core::Desired& desired, core::Observed& observed);
  Ok list_transitions(const core::LedgerView& ledger, const core::Heard& heard,
                      core::Observed& observed);
  Ok find_recorded(const core::LedgerView& ledger, core::Observed& observed);
  Ok add_volumes(const aws::Filter& filter, core::Observed& observed);
  Ok add_instances(const aws::Filter& filter, core::Observed& observed);
  Ok add_by_id(const std::vector<std::string>& volumes, const std::vector<std::string>& instances,
               core::Observed& observed);
  void look_up_pools(const core::Desired& desired, core::Observed& observed, Instant now);
  void look_up_zones(core::Observed& observed, Instant now);
  void look_at_statuses(const core::LedgerView& ledger, core::Observed& observed, Instant now);
  template <typename T>
  const core::Lookup<T>& look_up(
      std::map<std::string, Cached<T>>& cache, const std::string& id,
      Result<aws::Page<T>> (aws::Ec2::*describe)(const aws::DescribeRequest&), const char* missing,
      Instant now);

  aws::Ec2& ec2_;
  ObserverOptions options_;
  FillingObserver filling_;
  std::map<std::string, Cached<aws::Image>> images_;
  std::map<std::string, Cached<aws::Snapshot>> snapshots_;
  std::map<std::string, Cached<aws::Subnet>> subnets_;
  std::map<std::string, aws::AvailabilityZone> zones_;
  Instant zones_until_{};
  std::map<std::string, aws::InstanceStatus> statuses_;
  Instant statuses_until_{};
  std::optional<core::Observed> last_full_;
};

}  // namespace warmroot::manager
