// Looks at EC2 for the planner. Everything is listed by tag, page by page (a sweep); between sweeps
// only what is about to change is asked for, by id, when it is due or when an event named it. AMIs,
// snapshots, zones and subnets are looked up and remembered. Changes nothing. Called by the
// reconciler once a tick. The look itself is in observer.cpp, listings in observer_sweeps.cpp,
// looks by id in observer_by_id.cpp, everything optional in observer_lookups.cpp.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"
#include "manager/market.hpp"
#include "manager/observer_filling.hpp"
#include "manager/strangers.hpp"

namespace warmroot::manager {

/// Items a page: a page of 1,000 instances is 8 MB of XML and 60 ms to parse.
inline constexpr int kPageSize = 500;
/// Up to this many volumes and instances a settled world is listed at every look.
inline constexpr std::size_t kSmallWorld = 400;
/// A sweep begins this long after the one before: at least, and for each thing in the world. What
/// it finds and looks by id do not (retagged, attached by people, ended without an event) is rare,
/// and a listing of 10,000 instances is a second of CPU and 20 s of answers.
inline constexpr Milliseconds kSweepAtLeast{5'000};
inline constexpr Milliseconds kSweepPerThing{30};
/// Between sweeps that are further apart: instances on their way out, by one filter.
inline constexpr Milliseconds kEndingsEvery{5'000};
inline constexpr Milliseconds kEndingsEveryTold{30'000};
/// Looks by id at what changes by itself. Source: EC2 takes 1 to 4 s to attach, 0.6 to 2.4 s to
/// create, 2 to 8 s to launch; nothing waits for "attached" but the display.
inline constexpr Milliseconds kAttachingEvery{2'000};
inline constexpr Milliseconds kMovingEvery{500};
/// The same where events say what changed: a second thought for those that get lost.
inline constexpr Milliseconds kAttachingEveryTold{10'000};
/// An event says that an attach is complete: looked at together with others.
inline constexpr Milliseconds kAttachingTold{5'000};
inline constexpr Milliseconds kMovingEveryTold{5'000};
/// In a large world a look at attachments alone is not worth a plan so often.
inline constexpr double kAttachingPatiencePerThingMs = 2;
inline constexpr Milliseconds kAttachingPatienceMost{10'000};
/// So is a page of a sweep.
inline constexpr double kSweepPatiencePerThingMs = 0.4;
/// With many things on the move each is looked at less often, so that looks leave EC2's bucket of
/// 20 calls a second alone.
inline constexpr double kPatiencePerMovingMs = 1.25;
/// How long lookups are believed: AMIs and subnets hardly change; what was not found may be about
/// to be shared.
inline constexpr Milliseconds kFoundFor{600'000};
inline constexpr Milliseconds kNotFoundFor{15'000};
inline constexpr Milliseconds kTransientFor{2'000};
/// Status checks run once a minute at EC2.
inline constexpr Milliseconds kStatusEvery{30'000};

/// Status checks of more leased instances than this are read by filter: only those that fail.
inline constexpr std::size_t kStatusByIdUpTo = 200;

struct ObserverOptions {
  int page_size = kPageSize;
  std::size_t small_world = kSmallWorld;
  bool told = false;  ///< look_at() is called for what changes: events and reports arrive
};

struct Look {
  core::Observed observed;     ///< without reports and user-data
  std::optional<Error> blind;  ///< why the listings could not be read to their end
  bool swept = false;          ///< everything was listed in this look
  /// When something that is about to change should be looked at again; absent: nothing is.
  std::optional<Instant> due;
  /// The same for what nobody waits for but the display: with the next tick, if one is to come.
  std::optional<Instant> due_at_leisure;
};

class Observer {
 public:
  /// `ec2` has to outlive the observer.
  explicit Observer(aws::Ec2& ec2, ObserverOptions options = {})
      : ec2_(ec2), options_(options), filling_(ec2), market_(ec2) {}

  /// EC2 refused a call with this code: what was looked up and is not known to it (any more, in
  /// this account) is asked for again in the next look, before the listings.
  void heed_refusal(std::string_view code);

  /// One look. Never fails: what could not be read makes `complete` false and is noted. All
  /// listings are read to their end in the first look and in a small world that was `settled`.
  Look look(const core::Desired& desired, const core::LedgerView& ledger, Instant now,
            bool settled = false);

  /// EC2 has just said this of an attachment: the next look shows it, and asks for it after
  /// attaching_patience().
  void learn(aws::Attachment attachment, Instant now);
  Milliseconds attaching_patience() const;

  /// Reads these volumes and instances, and what is attached to the instances, once more: before
  /// something is ended or detached for what was seen a while ago.
  Look verify(const core::Desired& desired, const std::vector<std::string>& ids, Instant now);

  /// So little that everything can be listed at once.
  bool small() const { return things() <= options_.small_world; }
  /// A listing of everything has begun and goes on with the next look.
  bool sweeping() const { return sweep_.has_value(); }
  std::size_t things() const { return world_.volumes.size() + world_.instances.size(); }

  /// An event or a report says that these volumes or instances changed: they are looked at next,
  /// instances that no look has shown as far as Strangers allows.
  /// True when somebody waits for one of them; that an attach is complete can wait.
  bool look_at(const std::vector<std::string>& ids);
  /// EC2's events of instances (not of volumes) arrive: running ones need fewer looks meanwhile.
  void set_events_live(bool live) { events_live_ = live; }

  /// As MarketWatch has them.
  bool scores_postponed() const { return market_.postponed(); }
  void hurry_scores() { market_.hurry(); }

  /// A call that names these had no clear answer: the next look asks for them, however fresh they
  /// are.
  void doubt(const std::vector<std::string>& ids);

 private:
  template <typename T>
  struct Cached {
    core::Lookup<T> lookup;
    Instant until{};
  };
  struct Listing {
    bool volumes = false;  ///< else instances
    aws::Filter filter;
    std::string token{};  ///< of the next page
  };
  /// A listing of everything, some pages of which have been read.
  struct Sweep {
    Instant began{};
    std::vector<Listing> left;     ///< those that have not been read to their end
    std::set<std::string> unseen;  ///< known before and not shown by any look since
  };
  /// What a look by id asks for.
  struct Due {
    std::vector<std::string> volumes;
    std::vector<std::string> instances;
  };

  void show(const core::Desired& desired, const Ok& read, Instant now, Look& look);
  void take_in_what_was_learned();
  void put(aws::Volume volume);
  void put(aws::Instance instance);
  void drop(const std::string& id);
  Ok list_everything(const core::Desired& desired, Instant now, Look& look);
  void begin_sweep(const core::Desired& desired, Instant now);
  Ok read_page(Listing& listing);
  Ok continue_sweep(std::size_t listings, Instant now);
  void expect_first_look(const core::Desired& desired, Instant now);
  static void add_ids(const Due& due, int page_size, std::vector<std::string>& bodies);
  Ok list_endings(const core::Desired& desired, Instant now);
  Ok look_by_id(const Due& due, Instant now, Look& look);
  Ok look_at_part(const core::Desired& desired, const Due& due,
                  const std::vector<std::string>& strangers, Instant now);
  void ask_about_strangers(const core::Desired& desired, const std::vector<std::string>& ids,
                           Instant now, Look& look);
  Due what_is_due(const core::LedgerView& ledger, Instant now, Look& look);
  Milliseconds patience_for(const std::string& id) const;
  void add_due(const std::string& id, Instant at, Look& look) const;
  Ok ask_by_id(const std::vector<std::string>& ids, bool volumes, Instant now);
  /// Before something counts as gone and is made anew, the source has to be shown: another
  /// account's listings have neither.
  void doubt_what_absence_rests_on(const core::LedgerView& ledger, Instant now);
  void doubt_sources(Instant looked_up_before);
  void look_up_pools(const core::Desired& desired, core::Observed& observed, Instant now);
  void look_up_zones(core::Observed& observed, Instant now);
  void look_at_statuses(const core::LedgerView& ledger, core::Observed& observed, Instant now);
  Ok statuses_by_id(std::span<const std::string> ids, std::vector<aws::InstanceStatus>& found);
  Ok impaired_statuses(std::vector<aws::InstanceStatus>& found);
  template <typename T>
  const core::Lookup<T>& look_up(
      std::map<std::string, Cached<T>>& cache, const std::string& id,
      Result<aws::Page<T>> (aws::Ec2::*describe)(const aws::DescribeRequest&), const char* missing,
      Instant now);

  aws::Ec2& ec2_;
  ObserverOptions options_;
  FillingObserver filling_;
  MarketWatch market_;
  std::map<std::string, Cached<aws::Image>> images_;
  std::map<std::string, Cached<aws::Snapshot>> snapshots_;
  std::map<std::string, Cached<aws::Subnet>> subnets_;
  std::map<std::string, aws::AvailabilityZone> zones_;
  Instant zones_until_{};
  Instant statuses_until_{};

  core::Observed world_;  ///< as EC2 showed each thing last
  std::optional<Sweep> sweep_;
  std::optional<Instant> swept_;  ///< when the last sweep ended
  Instant swept_from_{};          ///< when it began
  Instant endings_until_{};
  std::set<std::string> moving_;           ///< will change state by themselves
  std::map<std::string, Instant> looked_;  ///< when each of those asked for by id was
  bool events_live_ = false;
  bool sources_doubted_ = false;                ///< images_ and snapshots_ are
  bool lookups_expected_ = false;               ///< in this look
  std::map<std::string, std::string> carried_;  ///< made by launches, not yet seen; its instance
  std::set<std::string> told_;                  ///< named by events, not yet looked at
  Strangers strangers_;                         ///< the same, of those that no look has shown
  std::vector<aws::Attachment> learned_;        ///< not yet in the world
};

}  // namespace warmroot::manager
