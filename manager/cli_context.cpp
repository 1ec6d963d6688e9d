#include "manager/cli_context.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <chrono>
#include <utility>

#include "manager/cli_progress.hpp"
#include "manager/daemon_lock.hpp"
#include "manager/daemon_log.hpp"
#include "manager/user_data.hpp"

namespace warmroot::manager {
namespace {

/// EC2's smallest page of volumes: the first call asks whether anybody is there, not what.
constexpr int kSmallestPage = 5;

/// The first IPv4 address of this host that is not its loopback.
Result<std::string> first_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return fail_errno("listing this host's addresses");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if ((each->ifa_flags & IFF_LOOPBACK) != 0 || (each->ifa_flags & IFF_UP) == 0) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size()) != nullptr)
      return std::string(text.data());
  }
  return fail(ErrorKind::misconfigured,
              "this host has no address that instances could reach; write manager_url = "
              "\"http://HOST:PORT\" at the top "
              "of the spec");
}

Result<std::string> manager_url_for(const Config& config, int port) {
  if (!config.manager_url.empty()) return config.manager_url;
  TRY_ASSIGN(const std::string address, first_address());
  return fmt::format("http://{}:{}", address, port);
}

/// The client tries reads for some seconds before it gives up, so one call here is a bounded number
/// of attempts.
Ok check_endpoint(Context& context) {
  aws::DescribeRequest request;
  request.filters = {
      {std::string("tag:") + core::kTagDeployment, {context.config.desired.deployment}}};
  request.max_results = kSmallestPage;
  Progress progress;  // speaks after two seconds of silence
  progress.waiting_for(
      fmt::format("EC2 at {} to answer", context.connection.settings.endpoint.url()));
  TRY(context.connection.ec2->describe_volumes(request));
  return {};
}

/// Where keys come from and what is asked of EC2. No field of these is secret.
void log_requests(aws::Connection& connection) {
  log_event(LogLevel::debug, "credentials", {{"source", connection.credentials->source()}});
  connection.transport->set_on_exchange([](const aws::HttpExchange& exchange) {
    LogFields fields = {{"action", exchange.action},
                        {"host", exchange.host},
                        {"status", std::to_string(exchange.status)}};
    if (!exchange.error.empty()) fields.emplace_back("error", exchange.error);
    if (!exchange.request_id.empty()) fields.emplace_back("request_id", exchange.request_id);
    log_event(LogLevel::debug, "request", fields);
  });
}

}  // namespace

AccountSource Context::account_source() const {
  return [this]() -> Result<std::string> {
    TRY_ASSIGN(aws::CallerIdentity identity, connection.identify());
    return std::move(identity.account);
  };
}

aws::AwsChoices aws_choices(const Options& options, const Config& config) {
  return {options.profile, options.region.empty() ? config.region : options.region,
          options.endpoint_url};
}

Result<const core::PoolSpec*> find_pool(const Config& config, const std::string& name) {
  std::vector<std::string> names;
  for (const core::PoolSpec& pool : config.desired.pools) {
    if (pool.name == name) return &pool;
    names.push_back(pool.name);
  }
  return fail(ErrorKind::misconfigured,
              fmt::format("the spec has no pool {}; it has {}", name, fmt::join(names, ", ")));
}

std::string ledger_path(const Options& options) {
  return options.state + "/ledger.sqlite";
}

UserDataSource::UserDataSource(const Config& config, Result<BootstrapProgram> program, int port)
    : deployment_(config.desired.deployment),
      settings_(config.ticket_settings),
      manager_url_(manager_url_for(config, port)),
      bootstrap_sha256_(program ? Result<std::string>(program->sha256) : fail(program.error())) {}

Result<std::string> UserDataSource::operator()(const core::PoolSpec& pool) const {
  TRY_ASSIGN(const std::string manager_url, Result<std::string>(manager_url_));
  TRY_ASSIGN(const std::string sha256, Result<std::string>(bootstrap_sha256_));
  UserDataParts parts;
  parts.ticket.deployment = deployment_;
  parts.ticket.pool = pool.name;
  parts.ticket.manager_url = manager_url;
  parts.ticket.session_entry = pool.session.entry;
  parts.ticket.host_keys = pool.session.host_keys;
  parts.ticket.rescue_port = static_cast<unsigned>(pool.session.rescue_port);
  parts.ticket.release_wishes = pool.session.release_wishes;
  parts.ticket.grow = pool.volumes.grow;
  parts.ticket.warm = pool.warm.enabled;
  parts.ticket.record = pool.warm.record;
  parts.ticket.max_depth = static_cast<unsigned>(pool.warm.max_depth);
  if (const auto own = settings_.find(pool.name); own != settings_.end()) {
    parts.ticket.max_mib_s = static_cast<unsigned>(own->second.warm_max_mib_s);
    if (const auto wait = own->second.login_wait_s)
      parts.ticket.login_wait_s = static_cast<unsigned>(*wait);
  }
  if (const auto rate = pool.volumes.throughput_mib_s)
    parts.ticket.write_mib_s = static_cast<unsigned>(*rate);
  parts.bootstrap_sha256 = sha256;
  if (pool.launch) parts.operators_part = pool.launch->user_data;
  return render_user_data(parts);
}

Result<std::unique_ptr<Ledger>> open_ledger(const Options& options, const Config& config,
                                            const std::string& region) {
  TRY(make_state_folder(options.state));
  TRY_ASSIGN(Ledger ledger,
             Ledger::open(ledger_path(options), {config.desired.deployment, region}, wall_clock()));
  return std::make_unique<Ledger>(std::move(ledger));
}

Result<Context> open_context(const Options& options) {
  Context context;
  context.options = options;
  TRY_ASSIGN(context.config, load_spec(options.spec));
  if (options.verbose) log_everything();
  TRY_ASSIGN(context.connection, aws::connect_ec2(aws_choices(options, context.config)));
  log_requests(context.connection);
  TRY(check_endpoint(context));
  TRY_ASSIGN(context.ledger,
             open_ledger(options, context.config, context.connection.settings.region));
  TRY_ASSIGN(const auto note, check_account(*context.ledger, context.account_source()));
  if (note) fmt::print(stderr, "warmroot: note: {}\n", *note);
  return context;
}

ReconcilerOptions reconciler_options(const Context& context, const UserDataSource& user_data) {
  ReconcilerOptions options;
  options.desired = context.config.desired;
  options.now = wall_clock;
  options.user_data = user_data;
  return options;
}

Result<TickReport> look(Context& context) {
  const UserDataSource user_data(context.config, load_bootstrap(context.options.bootstrap),
                                 kDefaultPort);
  Reconciler reconciler(*context.connection.ec2, *context.ledger,
                        reconciler_options(context, user_data));
  TRY_ASSIGN(TickReport report, reconciler.look());
  if (report.blind) return fail(*report.blind);
  return report;
}

}  // namespace warmroot::manager
