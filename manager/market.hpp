// What the account may read of prices and capacity, asked seldom: spot prices, which zone offers
// which type, placement scores, and our launch templates. Used by the observer. Nothing here ever
// makes a look incomplete: what cannot be read is left out, and told in one quiet note.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"

namespace warmroot::manager {

/// Prices move a few per cent an hour.
inline constexpr Milliseconds kPricesFor{300'000};
/// What zones offer changes with new hardware; scores may be asked for only so often a day.
inline constexpr Milliseconds kOfferingsFor{3'600'000};
inline constexpr Milliseconds kScoresFor{3'600'000};
inline constexpr Milliseconds kTemplatesFor{600'000};
/// A template that was just made is looked for this often.
inline constexpr Milliseconds kTemplatesSoon{500};
/// A permission that is missing may be given; nobody waits for it.
inline constexpr Milliseconds kForbiddenFor{6 * 3'600'000};
/// After any other failure.
inline constexpr Milliseconds kMarketRetry{60'000};
/// Questions for placement scores that go out together, and the pause between two such rounds: well
/// below EC2's bucket of plain reads (100, refilled by 20 a second), and more than LaunchCheck lets
/// pools through, so that a pool's scores are there before its launches.
inline constexpr std::size_t kScoresAtOnce = 8;
inline constexpr Milliseconds kScoresRound{1'000};
/// EC2 may limit how many new questions for scores an account asks in 24 hours; what it answered in
/// that time may be asked again. Source: EC2 user guide, "Spot placement score", limitations.
inline constexpr Milliseconds kScoresRepeatable{24 * 3'600'000};

class MarketWatch {
 public:
  /// `ec2` has to outlive it.
  explicit MarketWatch(aws::Ec2& ec2) : ec2_(ec2) {}

  /// Asks what is due; only what some pool's launches depend on. `zones`: those of the Region, for
  /// the names of scored ones. `instances`: those that EC2 shows as ours.
  void ask(const core::Desired& desired, const core::LedgerView& ledger,
           const std::map<std::string, aws::AvailabilityZone>& zones,
           const core::SharedMap<aws::Instance>& instances, Instant now);
  /// Encoded bodies of what the first ask() will ask, for Ec2::expect.
  std::vector<std::string> first_questions(const core::Desired& desired, Instant now) const;
  /// EC2 did not know a template that a call named: the next ask() lists them again.
  void doubt_templates() { templates_.until = {}; }
  /// The last ask() left questions for scores to a later one.
  bool postponed() const { return postponed_; }
  /// The next ask() asks for scores whenever the last ones were: nobody looks later.
  void hurry();
  /// Adds what is known, and at most one note of what cannot be read and one of pools that EC2
  /// gives no scores.
  void add(core::Observed& observed) const;

 private:
  /// One kind of question: when it is asked again, and why it could not be answered.
  struct Asking {
    Instant until{};
    std::string forbidden;  ///< the action that the account may not use; empty: it may
    std::string error;      ///< what else keeps it from being answered, in EC2's words
    bool silent() const { return !forbidden.empty() || !error.empty(); }
  };
  /// What is known of one question for scores. Pools that would ask the same share it.
  struct Scores {
    Instant until{};                   ///< it is asked again then
    std::optional<Instant> answered;   ///< when EC2 gave scores last
    std::map<std::string, int> found;  ///< by zone
    std::string error;                 ///< why it gave none
  };
  struct ScoreQuestion {
    aws::GetSpotPlacementScores request;
    std::string body;  ///< the request, encoded: its name
    std::vector<std::string> pools;
  };

  bool due(const Asking& asking, Instant now) const { return now >= asking.until; }
  void settle(Asking& asking, const char* action, const Error* error, Milliseconds good_for,
              Instant now);
  void ask_prices(const std::vector<std::string>& types, Instant now);
  void ask_offerings(const std::vector<std::string>& types, Instant now);
  void ask_scores(const core::Desired& desired, const core::LedgerView& ledger,
                  const std::map<std::string, aws::AvailabilityZone>& zones, Instant now);
  std::vector<ScoreQuestion> questions_for_scores(const core::Desired& desired,
                                                  const core::LedgerView& ledger, Instant now);
  /// False: EC2 answers no question for scores now.
  bool ask_score(const ScoreQuestion& question,
                 const std::map<std::string, aws::AvailabilityZone>& zones, Instant now);
  /// Gives the pool what is known.
  void take_scores(const std::string& pool, const Scores& scores);
  void ask_templates(const core::Desired& desired, const core::LedgerView& ledger, Instant now);
  void note_silent(core::Observed& observed) const;
  void note_unscored(core::Observed& observed) const;

  aws::Ec2& ec2_;
  std::vector<std::string> types_;
  Asking prices_;
  Asking offerings_;
  Asking templates_;
  Asking scores_;
  std::map<std::string, Scores> scores_known_;   ///< by encoded question
  std::map<std::string, Instant> scored_until_;  ///< by pool
  std::map<std::string, std::string> unscored_;  ///< pools without scores, and why
  Instant new_questions_from_{};  ///< before that EC2 takes questions for scores that it knows
  std::string limit_;             ///< why, in EC2's words
  bool postponed_ = false;
  core::Market market_;
  std::optional<std::vector<aws::LaunchTemplate>> found_templates_;
};

}  // namespace warmroot::manager
