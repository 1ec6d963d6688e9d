// Who gets a key at hello. With certificates an instance has to show the identity document that EC2
// signed for it, from its own address; without, its id is all that is asked. Called by reports.cpp
// from the server's threads; no sockets here.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "manager/identity.hpp"
#include "manager/reports_board.hpp"
#include "manager/reports_codec.hpp"

namespace warmroot::manager {

struct AdmissionRules {
  std::optional<IdentityCertificates> certificates;  ///< absent: the id alone is believed
  std::string account_id;
  std::string region;
  bool check_address = true;  ///< false: hellos come through NAT or a proxy
};

/// Reads the file of --identity-certificates. Errors: misconfigured, naming the option.
Result<IdentityCertificates> load_identity_certificates(const std::string& path);

/// A bootstrap that lives reports every 5 s, and retries after 10 s at most. One that was silent
/// for three times as long, while we listened, has lost its key: its machine started again, or our
/// answer never arrived.
inline constexpr std::chrono::seconds kSilence{30};

class Admission {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `board` and `keys` outlive it. `now` is when the server begins to listen.
  Admission(AdmissionRules rules, ReportBoard& board, KeyStore& keys, Time now);

  struct Answer {
    int status = 200;
    std::string error{};  ///< of any other status
    Secret key{};         ///< of 200, as are these
    KnownInstance known{};
  };
  /// `peer` is the connection's other end. Every refusal is counted on the board.
  Answer hello(const Hello& hello, const std::string& peer, Time now);

  /// The instance has signed something with its key.
  void heard(const std::string& instance_id, Time now);

 private:
  struct Talk {
    Time heard{};
    bool told = false;  ///< the log has the refusal of a second key
  };
  Answer give_key(const std::string& instance_id, const KnownInstance& known,
                  const std::string& peer, Time now);
  /// Whether the instance has lost the key that it was given: proven, after a silence; otherwise
  /// only if nobody has used that key yet, and from the address that EC2 shows. Then `key` counts.
  Result<bool> replace_key(const std::string& instance_id, const Secret& key,
                           const KnownInstance& known, const std::string& peer, Time now);
  Answer refuse(Refusal reason, int status, std::string error);
  /// For how long nothing was heard of the instance while we listened.
  std::chrono::steady_clock::duration silence(const std::string& instance_id, Time now);

  const AdmissionRules rules_;
  ReportBoard& board_;
  KeyStore& keys_;
  const Time began_;
  std::mutex mutex_;
  std::map<std::string, Talk> talks_;
};

}  // namespace warmroot::manager
