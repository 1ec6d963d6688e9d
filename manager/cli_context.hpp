// What commands need before they can do anything: the spec, a connection to EC2, the ledger, and
// user-data for pools. Each step fails with one sentence; the order is such that a mistake in the
// spec is told before anything is touched.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "bootstrap/base/result.hpp"
#include "manager/account.hpp"
#include "manager/aws/http_transport.hpp"
#include "manager/cli_options.hpp"
#include "manager/clock.hpp"
#include "manager/config.hpp"
#include "manager/ledger.hpp"
#include "manager/reconciler.hpp"
#include "manager/reports.hpp"

namespace warmroot::manager {

/// The command line's word on Region, profile and endpoint, with the spec's Region as second
/// choice.
aws::AwsChoices aws_choices(const Options& options, const Config& config);

/// Errors: misconfigured, with the names of those that the spec has.
Result<const core::PoolSpec*> find_pool(const Config& config, const std::string& name);

/// "DIR/ledger.sqlite"
std::string ledger_path(const Options& options);

/// Renders user-data for the pools of one spec.
class UserDataSource {
 public:
  /// `port` is that of `serve`, for a spec without manager_url.
  UserDataSource(const Config& config, Result<BootstrapProgram> program, int port);
  /// Errors: misconfigured (no bootstrap, no address, too long).
  Result<std::string> operator()(const core::PoolSpec& pool) const;

 private:
  std::string deployment_;
  std::map<std::string, TicketSettings> settings_;
  Result<std::string> manager_url_;
  Result<std::string> bootstrap_sha256_;
};

/// A spec, a live connection and the ledger.
struct Context {
  Options options;
  Config config;
  aws::Connection connection;
  std::unique_ptr<Ledger> ledger;

  /// Asks STS with the connection's credentials.
  AccountSource account_source() const;
};

/// Reads the spec, finds credentials, and makes sure that EC2 answers with one call, before the
/// state folder is made; then that the ledger is of the credentials' account. Errors: as those of
/// the steps; misconfigured when EC2 cannot be reached or is something else.
Result<Context> open_context(const Options& options);

/// The ledger of the spec's deployment. Errors: as Ledger::open's.
Result<std::unique_ptr<Ledger>> open_ledger(const Options& options, const Config& config,
                                            const std::string& region);

/// A reconciler on the context, which outlives it.
ReconcilerOptions reconciler_options(const Context& context, const UserDataSource& user_data);

/// One look at EC2 with the plan that follows from it; changes nothing. Errors: why EC2 could not
/// be read; the ledger's.
Result<TickReport> look(Context& context);

}  // namespace warmroot::manager
