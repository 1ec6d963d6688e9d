// `warmroot serve`: reconciler ticks woken by reports, by commands beside it and by the clock, with
// the HTTP server that bootstraps and operators talk to. Runs until asked to stop; a stop loses
// nothing, because every intent is recorded.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>

#include "manager/cli_context.hpp"
#include "manager/daemon_block_lists.hpp"
#include "manager/daemon_signals.hpp"
#include "manager/daemon_status.hpp"
#include "manager/earlier_programs.hpp"
#include "manager/events.hpp"
#include "manager/order_socket.hpp"
#include "manager/reports.hpp"
#include "manager/reports_board.hpp"

namespace warmroot::manager {

class Daemon {
 public:
  /// `context` outlives it. `program` is what instances run. Account and Region of `rules` are
  /// filled in here.
  Daemon(Context& context, BootstrapProgram program, AdmissionRules rules);
  ~Daemon();

  /// Serves until a stop is requested; reads the spec again after a hang-up. Prints
  /// "listening=HOST:PORT" on standard output once it serves. Errors: misconfigured when the
  /// address cannot be bound; those of the keys' database.
  Ok run(const ListenAddress& address, SignalWatch& signals);

 private:
  void tick(Reconciler& reconciler, const std::stop_token& stop);
  /// False: the credentials have become another account's, and nothing may be done with them.
  bool is_our_account();
  void publish(const TickReport& report);
  /// `releases_seen`: ReportBoard::set_known().
  void publish_known(const TickReport& report, std::uint64_t releases_seen);
  void log_calls(const TickReport& report);
  void log_changes(const TickReport& report);
  void read_spec_again(Reconciler& reconciler);
  /// Until woken, but no sooner than `at_least`; or after `at_most`.
  void wait(Milliseconds at_least, Milliseconds at_most, const SignalWatch& signals);
  /// Tells the commands that wait at the socket what became of their orders.
  void answer_orders(OrderSocket& socket);
  Pages pages();
  /// Listens to the spec's queue, or to another one since the spec was read again.
  Ok listen_to_events();

  Context& context_;
  BootstrapProgram program_;
  AdmissionRules rules_;
  std::unique_ptr<UserDataSource> user_data_;
  int port_ = 0;
  ReportBoard board_;
  HotLists hot_lists_{context_.options.state + "/hot-lists"};
  EarlierPrograms earlier_programs_{context_.options.state + "/programs"};
  BlockLists block_lists_{context_.options.state + "/block-lists",
                          ebs_block_lists(context_.connection)};
  EventInbox inbox_;
  std::string queue_url_;
  std::unique_ptr<EventListener> listener_;
  std::atomic<std::int64_t> last_good_look_ms_ = 0;
  std::atomic<bool> has_new_credentials_ = false;
  /// STS is asked whose they are from then on; absent: it has said so.
  std::optional<std::chrono::steady_clock::time_point> account_check_due_;
  std::chrono::minutes account_patience_{1};  ///< doubled each time that it does not
  std::atomic<bool> others_launch_ = false;   ///< instances of some pool, by the spec
  Milliseconds next_look_{0};
  std::set<std::string> notes_told_;
  std::map<std::string, std::string> states_told_;  ///< of nodes
  std::mutex page_mutex_;  ///< held while a page is made; taken before view_mutex_
  std::mutex view_mutex_;
  TickView view_;
};

}  // namespace warmroot::manager
