// What the server's threads and the daemon's loop share: the latest report of each instance, which
// instances are known, and what they should be told. One mutex inside; nothing here does IO. Keys
// of instances lie behind KeyStore, which the ledger implements.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/secret.hpp"
#include "bootstrap/base/units.hpp"
#include "manager/core/node_report.hpp"
#include "manager/refusal.hpp"

namespace warmroot::manager {

/// A report's number beside those that were taken before.
enum class Turn {
  fresh,     ///< greater than all
  replayed,  ///< the last one again
  late,      ///< smaller, or of an instance without a key
};

/// The key that each instance received at its hello, and the last sequence number that it used.
/// Both outlive the manager's process: a replay stays a replay. Called from several threads.
class KeyStore {
 public:
  virtual ~KeyStore() = default;
  /// False when the instance has a key already; the first one stays.
  virtual Result<bool> add_key(const std::string& instance_id, const Secret& key_hex) = 0;
  /// The instance's key from now on; nothing that was signed with an earlier one is taken any more,
  /// and its numbers begin anew.
  virtual Ok replace_key(const std::string& instance_id, const Secret& key_hex) = 0;
  /// As replace_key, if nothing that the present key signed was ever taken; else false.
  virtual Result<bool> replace_unused_key(const std::string& instance_id,
                                          const Secret& key_hex) = 0;
  virtual Result<std::optional<Secret>> key_of(const std::string& instance_id) = 0;
  /// Remembers the number when it is in turn.
  virtual Result<Turn> advance(const std::string& instance_id, std::uint64_t sequence) = 0;
  /// Remembers beyond the process that the instance gives, or has given, its volume back; does
  /// nothing for other stages.
  virtual Ok keep_departure(const core::NodeReport&) { return {}; }
};

/// Forgets everything with the process.
class MemoryKeyStore : public KeyStore {
 public:
  Result<bool> add_key(const std::string& instance_id, const Secret& key_hex) override;
  Ok replace_key(const std::string& instance_id, const Secret& key_hex) override;
  Result<bool> replace_unused_key(const std::string& instance_id, const Secret& key_hex) override;
  Result<std::optional<Secret>> key_of(const std::string& instance_id) override;
  Result<Turn> advance(const std::string& instance_id, std::uint64_t sequence) override;

 private:
  struct Entry {
    Secret key_hex;
    std::optional<std::uint64_t> last_sequence;
  };
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

/// An instance of our deployment as the last tick saw it.
struct KnownInstance {
  std::string pool;
  std::string node;           ///< empty: none yet
  std::string volume_id;      ///< the volume attached to it for us; empty: none yet
  bool drain = false;         ///< it should give the volume back
  std::string no_volume{};    ///< why it gets none for now; empty: it may get one
  std::string lineage{};      ///< of that volume: its snapshot; empty: not known
  std::string snapshot_id{};  ///< that EC2 says the volume was made from; empty: of none, or a copy
  bool block_list = true;     ///< the pool hands that snapshot's block list out
  // As EC2 shows it; empty: not shown.
  std::string image_id{};
  std::string instance_type{};
  std::string private_ip{};
};

/// As often as a pool that waits for something looks by itself.
inline constexpr Milliseconds kKnockPause{5'000};
/// Whoever knocks beyond these knocks again.
inline constexpr std::size_t kKnockersKept = 1'000;

class ReportBoard {
 public:
  struct Entry {
    core::NodeReport latest;
    std::uint64_t number = 0;                     ///< of the latest; 0: a hello that got a key
    std::map<NodeStage, Instant> first_received;  ///< arrival of the first report of each stage
  };

  /// Replaces what hello and report answers are made from. After each tick; `releases_seen` is
  /// releases_heard() from before the tick read the ledger: who has given its volume back since is
  /// told that it gets none.
  void set_known(std::string deployment, std::map<std::string, KnownInstance> instances,
                 std::uint64_t releases_seen = UINT64_MAX);
  /// How many reports have said so far that a volume was released. Each of these is in the ledger.
  std::uint64_t releases_heard() const;
  /// The instance, if it belongs to this deployment and pool.
  std::optional<KnownInstance> known(const std::string& deployment, const std::string& instance_id,
                                     const std::string& pool) const;
  /// False until the first tick has told what there is.
  bool has_looked() const;
  /// The instance, of whichever pool.
  std::optional<KnownInstance> known(const std::string& instance_id) const;
  /// The volume has been attached, for us, to another instance than this.
  bool held_by_another(const std::string& volume_id, const std::string& instance_id) const;

  /// Keeps the report; a new stage or volume wakes the waiter, mere progress does not. Who says
  /// that it has released its volume is told at once that it gets none: a tick may see EC2 much
  /// later. `has_new_key`: it is a hello, answered with one. `number`: of a signed report; one that
  /// a greater has overtaken on its way here changes nothing. Sets NodeReport::up_again.
  void record(core::NodeReport report, bool has_new_key = false, std::uint64_t number = 0);
  std::map<std::string, core::NodeReport> snapshot() const;
  std::map<std::string, Entry> entries() const;
  /// Drops the entries of instances that are not among the known ones any more and were last heard
  /// before `before`.
  void forget_unknown(Instant before);

  /// What the server refused since it began, and to how many it gave a second key.
  RefusalCounts refusals;
  std::atomic<std::uint64_t> keys_replaced = 0;

  bool is_deployment(const std::string& deployment) const;
  /// An instance that is not known says hello or reports, or an event says that it begins to run:
  /// kept for take_knockers(), and wakes the waiter to look at EC2 again, at most once in
  /// kKnockPause, because anybody on the network can say it.
  void knock(const std::string& instance_id, std::chrono::steady_clock::time_point now);
  /// Who knocked since the last time.
  std::vector<std::string> take_knockers();
  /// Wakes the waiter for any other reason.
  void wake();
  /// Returns when woken or after `at_most`; true when woken. A wake while nobody waits is kept for
  /// the next wait.
  bool wait(Milliseconds at_most);

 private:
  /// A release that the known instances may not show yet.
  struct GivenBack {
    std::string volume_id;     ///< empty: whichever it had
    std::uint64_t number = 0;  ///< of that report among all that said so
  };
  /// Requires: mutex_ is held.
  void withhold_volume(const std::string& instance_id, const GivenBack& given);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::optional<std::chrono::steady_clock::time_point> knocked_;  ///< the last that woke
  std::set<std::string> knockers_;
  std::string deployment_;
  bool has_looked_ = false;
  std::map<std::string, KnownInstance> known_;
  std::map<std::string, std::string> holders_;  ///< instances by volume
  std::map<std::string, Entry> entries_;
  std::map<std::string, GivenBack> given_back_;  ///< by instance
  std::uint64_t releases_heard_ = 0;
};

}  // namespace warmroot::manager
