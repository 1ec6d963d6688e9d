// The way by which a command beside `serve` has its orders looked at and answered: a Unix stream
// socket STATE/socket of lines of JSON. The order itself is in the ledger before anybody speaks
// here, so that nothing is lost with a connection. `serve` (daemon.cpp) listens, the commands
// (cli_orders.cpp, cli.cpp) connect; what an order means is the ledger's and the planner's.
//
//   {"order": 12}                                              awaits order 12; {} only wakes serve
//   {"order": 12, "met": true, "answer": "i-1 is released"}    once, when it is settled
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::manager {

struct OrderAnswer {
  std::int64_t order = 0;
  bool met = false;
  std::string text;
};

/// Bounds of what others may make `serve` hold.
struct OrderSocketLimits {
  std::size_t connections = 64;  ///< further ones wait until one ends
  std::size_t awaited = 10'000;  ///< orders, of all connections
  Milliseconds silence{10'000};  ///< a connection that awaits nothing, or takes no answers, ends
};

/// The listening end, with a thread of its own.
class OrderSocket {
 public:
  /// Mode 0600, and only for the same user and root. Replaces the socket of a dead process: the
  /// caller holds the state folder's lock. `wake` is called from the thread. Errors: misconfigured.
  static Result<std::unique_ptr<OrderSocket>> listen(const std::string& state_folder,
                                                     std::function<void()> wake,
                                                     OrderSocketLimits limits = {});
  /// Ends all connections and removes the socket.
  ~OrderSocket();

  /// Orders for whose answer somebody waits.
  std::set<std::int64_t> awaited();
  /// Tells everybody who awaits it.
  void answer(const OrderAnswer& answer);

 private:
  struct Connection;
  OrderSocket(UniqueFd folder, UniqueFd listener, UniqueFd bell, std::function<void()> wake,
              OrderSocketLimits limits);
  void run(const std::stop_token& stop);
  bool accept_one();
  bool receive(Connection& connection, std::size_t others_await);
  bool serve_one(int fd, short happened);
  void end_silent();
  void ring() const;

  UniqueFd folder_;
  UniqueFd listener_;
  UniqueFd bell_;
  std::function<void()> wake_;
  OrderSocketLimits limits_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  std::jthread thread_;
};

/// A command's end.
class OrderConnection {
 public:
  /// Errors: gone when nobody listens.
  static Result<OrderConnection> open(const std::string& state_folder);
  /// Errors: gone.
  Ok await(const std::vector<std::int64_t>& orders);
  /// The next answer, if one comes in time. Errors: gone when the other end is.
  Result<std::optional<OrderAnswer>> next(Milliseconds at_most);

 private:
  explicit OrderConnection(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
  std::string unread_;
};

/// Asks a `serve` on this state folder to look at the ledger again. Never fails: without one there
/// is nobody to be asked, and it looks by itself in time.
void wake_serve(const std::string& state_folder);

}  // namespace warmroot::manager
