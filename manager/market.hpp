// What the account may read of prices and capacity, asked seldom: spot prices, which zone offers
// which type, placement scores, and our launch templates. Used by the observer. Nothing here ever
// makes a look incomplete: what cannot be read is left out, and told in one quiet note.
#pragma once

#include <map>
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

class MarketWatch {
 public:
  /// `ec2` has to outlive it.
  explicit MarketWatch(aws::Ec2& ec2) : ec2_(ec2) {}

  /// Asks what is due; only what some pool's launches depend on. `zones`: those of the Region, for
  /// the names of scored ones.
  void ask(const core::Desired& desired, const core::LedgerView& ledger,
           const std::map<std::string, aws::AvailabilityZone>& zones, Instant now);
  /// Encoded bodies of what the first ask() will ask, for Ec2::expect.
  std::vector<std::string> first_questions(const core::Desired& desired, Instant now) const;
  /// EC2 did not know a template that a call named: the next ask() lists them again.
  void doubt_templates() { templates_.until = {}; }
  /// Adds what is known, and at most one note.
  void add(core::Observed& observed) const;

 private:
  /// One kind of question: when it is asked again, and why it could not be answered.
  struct Asking {
    Instant until{};
    std::string forbidden;  ///< the action that the account may not use; empty: it may
  };

  bool due(const Asking& asking, Instant now) const { return now >= asking.until; }
  void settle(Asking& asking, const char* action, const Error* error, Milliseconds good_for,
              Instant now);
  void ask_prices(const std::vector<std::string>& types, Instant now);
  void ask_offerings(const std::vector<std::string>& types, Instant now);
  void ask_scores(const core::Desired& desired, const core::LedgerView& ledger,
                  const std::map<std::string, aws::AvailabilityZone>& zones, Instant now);
  void ask_templates(const core::Desired& desired, const core::LedgerView& ledger, Instant now);
  void note_forbidden(core::Observed& observed) const;

  aws::Ec2& ec2_;
  std::vector<std::string> types_;
  Asking prices_;
  Asking offerings_;
  Asking templates_;
  Asking scores_;
  std::map<std::string, Instant> scored_until_;  ///< by pool
  core::Market market_;
  std::optional<std::vector<aws::LaunchTemplate>> found_templates_;
};

}  // namespace warmroot::manager
