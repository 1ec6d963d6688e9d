// The loop's one step: observe, plan, record, send, record. The daemon and `warmroot reconcile`
// call tick() again and again, `warmroot plan` calls look(). Decides nothing itself: core/planner
// does.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/core/budget.hpp"
#include "manager/core/model.hpp"
#include "manager/launch_check.hpp"
#include "manager/ledger.hpp"
#include "manager/observer.hpp"

namespace warmroot::manager {

struct ReconcilerOptions {
  core::Desired desired;
  std::function<Instant()> now;  ///< the clock
  /// User-data of a pool's instances; not called for pools without launch. Absent: none.
  std::function<Result<std::string>(const core::PoolSpec&)> user_data;
  /// The latest report of each instance. Absent: nobody reports.
  std::function<std::map<std::string, core::NodeReport>()> reports;
  /// What EC2's events have told since the last tick that was `recorded`. Absent: nobody listens.
  std::function<core::Heard()> heard;
  /// The part of EC2's throttle buckets that is ours; the account is shared.
  double budget_share = core::Budget::kDefaultShare;
  ObserverOptions observer;
  bool orders_only = false;  ///< carries out what was ordered by hand and none of the spec's wishes
};

/// One call of a tick and what became of it.
struct CallReport {
  std::string action;    ///< "AttachVolume"
  std::string resource;  ///< "vol-1 to i-1 as /dev/sdf"
  std::string reason;
  std::string pool;
  std::vector<std::string> nodes;
  bool replayed = false;  ///< sent again, because an earlier tick had no clear answer
  Outcome outcome;
};

struct TickReport {
  Instant started{};
  core::Observed observed;
  core::Plan plan;
  std::vector<CallReport> calls;
  /// What the plan means for the ledger is in it, so that what was heard may be forgotten.
  bool recorded = false;
  std::size_t untried = 0;  ///< pools whose launch a single look did not try with EC2
  std::optional<Error>
      blind;  ///< why the listings could not be read; kinds unauthorised and misconfigured stay
};

/// One thread. Two reconcilers on one EC2 by mistake keep volumes safe, see the README.
class Reconciler {
 public:
  /// `ec2` and `ledger` have to outlive the reconciler.
  Reconciler(aws::Ec2& ec2, Ledger& ledger, ReconcilerOptions options);

  /// One step. Errors: those of the ledger; what EC2 refuses is in the report. A stop request is
  /// honoured between statements: what was recorded and not sent goes out at the next tick, even of
  /// another process.
  Result<TickReport> tick(std::stop_token stop = {});

  /// Observes and plans; changes nothing, anywhere.
  Result<TickReport> look();

  /// An event or a report says that these volumes or instances changed: the next tick looks at
  /// them, and at little else. True when somebody waits for one of them, so that a tick is due
  /// after shortest_pause(), in which more may come.
  bool look_at(const std::vector<std::string>& ids) { return observer_.look_at(ids); }
  Milliseconds shortest_pause() const;

  /// Replaces the spec, from the next tick on.
  void set_desired(core::Desired desired) { options_.desired = std::move(desired); }

 private:
  Result<TickReport> observe_and_plan(const core::LedgerView& view);
  void verify_and_plan(const core::LedgerView& view, TickReport& report);
  void listen();
  void check_launches(TickReport& report);
  void plan_on(Look look, const core::LedgerView& view, TickReport& report);
  void pace(const core::LedgerView& view, TickReport& report);
  Ok act(const core::LedgerView& view, std::stop_token stop, TickReport& report);
  Ok replay(const core::LedgerView& view, TickReport& report);
  Ok withdraw(const std::vector<core::Intent>& intents, TickReport& report);
  Ok send(const std::vector<core::Intent>& intents, const std::vector<std::string>& reasons,
          bool replayed, TickReport& report);
  void heed_throttles(const std::vector<core::Intent>& intents,
                      const std::map<std::string, int>& throttled, Instant sent);
  void render_user_data(core::Observed& observed);

  aws::Ec2& ec2_;
  Ledger& ledger_;
  ReconcilerOptions options_;
  Observer observer_;
  bool began_ = false;
  Instant pruned_{};
  /// At the last complete look.
  core::SharedMap<aws::Volume> shown_volumes_;
  core::SharedMap<aws::Instance> shown_instances_;
  LaunchCheck launch_check_;
  core::Budget budget_;
  core::Heard heard_;  ///< at the beginning of this tick
  std::optional<std::map<std::string, core::NodeReport>> reports_;  ///< as this tick hears them
  /// What a plan of this tick may spend: none more than the one before it.
  std::map<std::string, int, std::less<>> tick_limits_;
  bool settled_ = false;                   ///< the last plan was stable
  std::optional<Instant> due_;             ///< when something seen should be looked at again
  std::optional<Instant> due_at_leisure_;  ///< as Look's
};

}  // namespace warmroot::manager
