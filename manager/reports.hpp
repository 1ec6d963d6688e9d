// The manager's HTTP server: bootstraps fetch their program here, say hello once, send
// authenticated reports and hear wishes; operators read /status, /metrics and /healthz. Started by
// the daemon. Only reports.cpp and report_listener include cpp-httplib; what it serves about the
// manager itself comes through Pages.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "manager/admission.hpp"
#include "manager/hot_lists.hpp"
#include "manager/reports_board.hpp"

namespace warmroot::manager {

inline constexpr int kDefaultPort = 8470;
/// A report with a long timeline is some 20 KiB.
inline constexpr std::size_t kMaxReportBytes = std::size_t{256} * 1024;

struct ListenAddress {
  std::string host;
  int port = kDefaultPort;  ///< 0: any free one
};

/// "HOST:PORT", "[::1]:8470" or "HOST". Errors: misconfigured.
Result<ListenAddress> parse_listen(const std::string& text);

/// The bootstrap as read once at start, so that what is served always has the digest that user-data
/// names.
/// The static program aims at 3.5 MiB; a debug build has some tens.
inline constexpr std::size_t kMaxProgramBytes = std::size_t{256} * 1024 * 1024;
struct BootstrapProgram {
  std::string bytes;
  std::string sha256;
};
/// Errors: misconfigured, naming --bootstrap.
Result<BootstrapProgram> load_bootstrap(const std::string& path);

/// What the server shows of the rest of the manager. Called from its threads.
struct Pages {
  std::function<std::string()> status_json;
  std::function<std::string()> metrics_text;
  std::function<bool()> healthy;
  /// A snapshot's block list, packed; nullopt where there is none. Empty: there are none.
  std::function<std::optional<std::string>(const std::string& snapshot_id)> block_list{};
  /// A bootstrap of before an upgrade, by its SHA-256; null where it is not kept. Empty: none
  /// is.
  std::function<std::shared_ptr<const std::string>(const std::string& sha256)> earlier_program{};
  /// The port was lost (false), or is there again. Empty: nobody is told.
  std::function<void(bool there)> on_port{};
};

/// Serves from construction by start() to destruction. `board`, `keys`, `program` and `hot_lists`
/// outlive it.
class ReportServer {
 public:
  /// Errors: misconfigured when the address cannot be bound.
  static Result<std::unique_ptr<ReportServer>> start(const ListenAddress& address,
                                                     AdmissionRules rules, ReportBoard& board,
                                                     KeyStore& keys,
                                                     const BootstrapProgram& program,
                                                     HotLists& hot_lists, Pages pages);
  ~ReportServer();
  ReportServer(const ReportServer&) = delete;
  ReportServer& operator=(const ReportServer&) = delete;

  /// The port chosen where the address said 0.
  int port() const;

 private:
  struct State;
  explicit ReportServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace warmroot::manager
