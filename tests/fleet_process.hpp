// One manager process of a simulated fleet: the real ledger, client and reconciler, and in front of
// the region a door that lets the owner see each call, and lets the process die before or after
// it. Used by fleet_harness.hpp and by fleet_sim.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "manager/aws/ec2_client.hpp"
#include "manager/aws/form.hpp"
#include "manager/aws/transport.hpp"
#include "manager/reconciler.hpp"

namespace warmroot {

/// Thrown where a test lets the manager's process die.
struct Crash {};

/// The effect that changes nothing.
inline constexpr const char* kBeforeRead = "before a read";

/// Of a body as our client writes it, the action first.
std::string_view action_in(std::string_view body);

/// What the owner of a process is told about its calls. Any may throw Crash, and all may be empty.
struct ProcessHooks {
  std::function<void()> before_post;  ///< bodies leave now; time may pass here
  std::function<void(const std::string& body)> before_look;  ///< all others, dry runs too
  std::function<void(const aws::Form&, const std::string& body)> before_call;  ///< mutating ones
  std::function<void(const aws::Form&, const Result<HttpReply>&)> after_call;  ///< mutating ones
  std::function<void(const char* what)> effect;  ///< a crash may follow each
};

/// Sends mutating calls one by one, so that a crash can also fall between two that go out together.
class WatchedTransport : public aws::Transport {
 public:
  WatchedTransport(aws::Transport& door, const ProcessHooks& hooks) : door_(door), hooks_(hooks) {}
  std::vector<Result<HttpReply>> post(std::span<const std::string> bodies) override;

  /// Answers that were fetched before they are asked for: a post of the body alone takes its own.
  std::map<std::string, Result<HttpReply>> early;
  std::uint64_t posts = 0;  ///< so many others

 private:
  aws::Transport& door_;
  const ProcessHooks& hooks_;
};

struct ProcessSetup {
  manager::ReconcilerOptions options;
  std::string ledger_path;
  aws::Transport* door = nullptr;  ///< outlives the process
  aws::Sleeper sleep;
  aws::RandomSource random = [] { return 0.5; };
  ProcessHooks hooks;
  /// Tests of the tests put a liar between client and reconciler; absent: the client itself.
  std::function<std::unique_ptr<aws::Ec2>(aws::Ec2& client)> disguise;
};

class ManagerProcess {
 public:
  /// Starts a manager on what is left of its ledger. Errors: those of the ledger.
  Ok start(ProcessSetup setup);
  /// Ends it, as a kill would: nothing is written.
  void stop();
  bool running() const { return reconciler != nullptr; }
  const ProcessSetup& setup() const { return setup_; }

  std::unique_ptr<manager::Ledger> ledger;
  std::unique_ptr<manager::Database> spy;  ///< reads what is committed
  std::unique_ptr<WatchedTransport> transport;
  std::unique_ptr<aws::Ec2Client> client;
  std::unique_ptr<aws::Ec2> disguise;
  std::unique_ptr<manager::Reconciler> reconciler;

 private:
  ProcessSetup setup_;
};

/// Removes a ledger's files.
void remove_ledger(const std::string& path);

}  // namespace warmroot
