// What hellos and reports are answered with: who gets a key, whose signature and number count, what
// a dead lease's instance hears, which wishes go back. Called by reports.cpp from the HTTP server's
// threads, and by the simulated manager; no sockets here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "manager/admission.hpp"
#include "manager/reports_board.hpp"

namespace warmroot::manager {

/// A body and what says whose it is, as the headers have it.
struct SignedBody {
  std::string instance_id;  ///< X-Warmroot-Instance
  std::string sequence;     ///< X-Warmroot-Sequence: decimal
  std::string signature;    ///< X-Warmroot-Signature: hex
  std::string_view body;
};

/// A decimal number and nothing else.
std::optional<std::uint64_t> parse_sequence(std::string_view text);

class ReportDesk {
 public:
  struct Clocks {
    std::function<Admission::Time()> steady;
    std::function<Instant()> wall;
  };
  /// An HTTP status and a JSON document.
  struct Answer {
    int status = 200;
    std::string body;
  };

  /// `board` and `keys` outlive it.
  ReportDesk(AdmissionRules rules, ReportBoard& board, KeyStore& keys, Clocks clocks);

  /// `peer` is the connection's other end.
  Answer hello(const std::string& body, const std::string& peer);
  /// Requires: find_fault() found none.
  Answer report(const SignedBody& letter);
  /// Why the body is not believed to be the instance's; nullopt when it is, and then its number is
  /// used up. Every refusal is counted on the board.
  std::optional<Answer> find_fault(const SignedBody& letter);

 private:
  Answer refuse(Refusal reason, int status, const std::string& text);
  Answer refuse_dead_lease(const std::string& volume_id, const KnownInstance& known);

  ReportBoard& board_;
  KeyStore& keys_;
  const Clocks clocks_;
  Admission admission_;
};

}  // namespace warmroot::manager
