#include "manager/reports.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "bootstrap/warm/hot_list.hpp"
#include "manager/aws/sigv4.hpp"
#include "manager/clock.hpp"
#include "manager/config.hpp"
#include "manager/listening.hpp"
#include "manager/reports_codec.hpp"

namespace warmroot::manager {
namespace {

/// cpp-httplib gives each open connection a thread, also while nothing is said on it.
constexpr std::size_t kThreads = 32;
constexpr time_t kSilentSeconds = 2;
constexpr time_t kReadTimeoutSeconds = 10;
constexpr time_t kWriteTimeoutSeconds = 30;
/// The static program aims at 3.5 MiB; a debug build has some tens.
constexpr std::size_t kMaxProgramBytes = std::size_t{256} * 1024 * 1024;
constexpr const char* kJson = "application/json";

void answer(httplib::Response& reply, int status, const std::string& body) {
  reply.status = status;
  reply.set_content(body, kJson);
}

void answer_error(httplib::Response& reply, int status, const std::string& text) {
  answer(reply, status, error_answer(text));
}

std::optional<std::uint64_t> sequence_of(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

struct ReportServer::State {
  State(AdmissionRules rules, ReportBoard& board_in, KeyStore& keys_in,
        const BootstrapProgram& program_in, HotLists& hot_lists_in, Pages pages_in)
      : board(board_in),
        keys(keys_in),
        admission(std::move(rules), board, keys, std::chrono::steady_clock::now()),
        program(program_in),
        hot_lists(hot_lists_in),
        pages(std::move(pages_in)) {}

  void hello(const httplib::Request& request, httplib::Response& reply);
  void report(const httplib::Request& request, httplib::Response& reply);
  void take_hot_list(const httplib::Request& request, httplib::Response& reply);
  void give_hot_list(const httplib::Request& request, httplib::Response& reply);
  void give_block_list(const httplib::Request& request, httplib::Response& reply);
  /// The instance whose key signed the request; answers and returns nullopt otherwise.
  bool authentic(const httplib::Request& request, httplib::Response& reply);
  void refuse(httplib::Response& reply, Refusal reason, int status, const std::string& text);
  void route();

  ReportBoard& board;
  KeyStore& keys;
  Admission admission;
  const BootstrapProgram& program;
  HotLists& hot_lists;
  Pages pages;
  httplib::Server server;
  int port = 0;
  std::thread thread;
};

void ReportServer::State::hello(const httplib::Request& request, httplib::Response& reply) {
  const auto hello = parse_hello(request.body);
  if (!hello) return refuse(reply, Refusal::hello_malformed, 400, hello.error().context);
  const auto admitted =
      admission.hello(*hello, request.remote_addr, std::chrono::steady_clock::now());
  if (admitted.status != 200) return answer_error(reply, admitted.status, admitted.error);
  answer(reply, 200, hello_answer(admitted.key, admitted.known.node, admitted.known.volume_id));
  core::NodeReport report;
  report.instance_id = hello->instance_id;
  report.received = wall_clock();
  board.record(std::move(report));
}

void ReportServer::State::refuse(httplib::Response& reply, Refusal reason, int status,
                                 const std::string& text) {
  board.refusals.add(reason);
  answer_error(reply, status, text);
}

bool ReportServer::State::authentic(const httplib::Request& request, httplib::Response& reply) {
  const std::string instance_id = request.get_header_value("X-Warmroot-Instance");
  const auto sequence = sequence_of(request.get_header_value("X-Warmroot-Sequence"));
  if (!sequence) {
    refuse(reply, Refusal::report_malformed, 400, "X-Warmroot-Sequence is missing or not a number");
    return false;
  }
  const auto key = keys.key_of(instance_id);
  if (!key) {
    answer_error(reply, 503, key.error().message());
    return false;
  }
  // The same answer for no key and for a wrong one: neither is a stranger's business.
  if (!*key || !equal_in_constant_time(report_signature(**key, *sequence, request.body),
                                       request.get_header_value("X-Warmroot-Signature"))) {
    refuse(reply, Refusal::report_forged, 401, "the signature does not fit the instance's key");
    return false;
  }
  const auto turn = keys.advance(instance_id, *sequence);
  // Also where the number cannot be kept: a full disk of ours is no silence of the instance.
  if (!turn || *turn == Turn::fresh) admission.heard(instance_id, std::chrono::steady_clock::now());
  if (!turn) {
    answer_error(reply, 503, turn.error().message());
    return false;
  }
  if (*turn != Turn::fresh) {
    refuse(reply, *turn == Turn::replayed ? Refusal::report_replayed : Refusal::report_late, 409,
           fmt::format("sequence {} is not greater than the last one", *sequence));
    return false;
  }
  return true;
}

void ReportServer::State::report(const httplib::Request& request, httplib::Response& reply) {
  if (!authentic(request, reply)) return;
  auto report = parse_report(request.body);
  if (!report) return refuse(reply, Refusal::report_malformed, 400, report.error().context);
  if (report->instance_id != request.get_header_value("X-Warmroot-Instance"))
    return refuse(reply, Refusal::report_malformed, 400, "instance_id is not that of the header");
  const bool dead_lease = board.held_by_another(report->volume_id, report->instance_id);
  const std::string dead_sentence =
      fmt::format("volume {} is another instance's by now", report->volume_id);
  if (dead_lease && report->stage != NodeStage::released)
    return refuse(reply, Refusal::report_dead_lease, 410, dead_sentence);
  const auto seen = board.known(report->instance_id);
  if (!seen) board.knock(report->instance_id, std::chrono::steady_clock::now());
  const KnownInstance known = seen.value_or(KnownInstance{});
  report->received = wall_clock();
  // The node says it once and then ends: it has to be known before it is told so. Also where the
  // volume has gone on without it: the instance is free, and nothing on it mounts another.
  if (const auto kept = keys.keep_departure(*report); !kept)
    return answer_error(reply, 503, kept.error().message());
  board.record(std::move(*report));
  if (dead_lease) return refuse(reply, Refusal::report_dead_lease, 410, dead_sentence);
  answer(reply, 200,
         report_answer(known.drain, known.volume_id, known.snapshot_id, known.no_volume));
}

/// By the lineage of the volume that we have given it, whatever it says itself.
void ReportServer::State::take_hot_list(const httplib::Request& request, httplib::Response& reply) {
  if (!authentic(request, reply)) return;
  const auto known = board.known(request.get_header_value("X-Warmroot-Instance"));
  if (!known || known->lineage.empty())
    return answer_error(reply, 404, "no volume of a known lineage is attached to this instance");
  if (const Ok added = hot_lists.add(known->pool, known->lineage, request.body); !added)
    return answer_error(reply, added.error().kind == ErrorKind::refused ? 400 : 503,
                        added.error().message());
  answer(reply, 200, "{}");
}

/// The lineage's own; with "?of=pool" the latest of the pool's other lineages, of which only the
/// names of files mean something to whoever asks.
void ReportServer::State::give_hot_list(const httplib::Request& request, httplib::Response& reply) {
  if (!authentic(request, reply)) return;
  const auto known = board.known(request.get_header_value("X-Warmroot-Instance"));
  const bool elsewhere = request.has_param("of") && request.get_param_value("of") == "pool";
  std::optional<std::string> list;
  if (known && elsewhere && !known->lineage.empty())
    list = hot_lists.of_pool(known->pool, known->lineage);
  else if (known && !request.has_param("of"))
    list = hot_lists.of(known->lineage);
  if (!list) return answer_error(reply, 404, "nobody has recorded such a hot list yet");
  reply.set_content(*list, "text/plain");
}

/// Of the snapshot that the volume given to it was made from, whatever it says itself.
void ReportServer::State::give_block_list(const httplib::Request& request,
                                          httplib::Response& reply) {
  if (!authentic(request, reply)) return;
  const auto known = board.known(request.get_header_value("X-Warmroot-Instance"));
  const auto list = known && known->block_list && pages.block_list
                        ? pages.block_list(known->snapshot_id)
                        : std::nullopt;
  if (!list) return answer_error(reply, 404, "there is no block list of the volume's snapshot");
  reply.set_content(*list, "application/octet-stream");
}

void ReportServer::State::route() {
  using httplib::Request;
  using httplib::Response;
  server.Post("/v1/hello",
              [this](const Request& request, Response& reply) { hello(request, reply); });
  server.Post("/v1/report",
              [this](const Request& request, Response& reply) { report(request, reply); });
  server.Post("/v1/hot-list",
              [this](const Request& request, Response& reply) { take_hot_list(request, reply); });
  server.Get("/v1/hot-list",
             [this](const Request& request, Response& reply) { give_hot_list(request, reply); });
  server.Get("/v1/block-list",
             [this](const Request& request, Response& reply) { give_block_list(request, reply); });
  server.Get("/bootstrap/warmroot-bootstrap", [this](const Request&, Response& reply) {
    reply.set_content_provider(
        program.bytes.size(), "application/octet-stream",
        [this](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
          return sink.write(program.bytes.data() + offset, length);
        });
  });
  server.Get("/", [](const Request&, Response& reply) {
    reply.set_content("warmroot's manager: see /status, /metrics and /healthz\n", "text/plain");
  });
  server.Get("/status",
             [this](const Request&, Response& reply) { answer(reply, 200, pages.status_json()); });
  server.Get("/metrics", [this](const Request&, Response& reply) {
    reply.set_content(pages.metrics_text(), "text/plain; version=0.0.4");
  });
  server.Get("/healthz", [this](const Request&, Response& reply) {
    const bool healthy = pages.healthy();
    reply.status = healthy ? 200 : 503;
    reply.set_content(healthy ? "ok\n" : "the last look at EC2 is too old, see the log\n",
                      "text/plain");
  });
  // The payload limit looks at Content-Length alone: a chunked or compressed body would get past
  // it.
  server.set_pre_routing_handler([](const Request& request, Response& reply) {
    using Handled = httplib::Server::HandlerResponse;
    if (request.method == "GET" || request.method == "HEAD") return Handled::Unhandled;
    if (request.has_header("Content-Encoding")) {
      answer_error(reply, 415, "a body in a Content-Encoding is not taken, send it as it is");
      return Handled::Handled;
    }
    const bool is_list = request.path == "/v1/hot-list";
    if (!is_list &&
        sequence_of(request.get_header_value("Content-Length")).value_or(0) > kMaxReportBytes) {
      answer_error(reply, 413, "a report is not as long as that");
      return Handled::Handled;
    }
    if (!request.has_header("Transfer-Encoding") && request.has_header("Content-Length"))
      return Handled::Unhandled;
    answer_error(reply, 411, "a body needs a Content-Length and no Transfer-Encoding");
    return Handled::Handled;
  });
  server.set_exception_handler([](const Request&, Response& reply, const std::exception_ptr&) {
    answer_error(reply, 500, "an unexpected error, see the manager's log");
  });
}

ReportServer::ReportServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<ReportServer>> ReportServer::start(const ListenAddress& address,
                                                          AdmissionRules rules, ReportBoard& board,
                                                          KeyStore& keys,
                                                          const BootstrapProgram& program,
                                                          HotLists& hot_lists, Pages pages) {
  auto state =
      std::make_unique<State>(std::move(rules), board, keys, program, hot_lists, std::move(pages));
  httplib::Server& server = state->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // Instances report every few seconds: kept open, 32 idle connections would leave the others
  // waiting.
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(kSilentSeconds);  // also of a connection's first byte
  server.set_read_timeout(kReadTimeoutSeconds);
  server.set_write_timeout(kWriteTimeoutSeconds);
  server.set_payload_max_length(warm::kMostListBytes);
  state->route();
  errno = 0;
  state->port = bind_and_listen(server, address.host, address.port);
  if (state->port < 0)
    return fail(
        ErrorKind::misconfigured,
        fmt::format("cannot listen on {}:{}: {}; choose another address with --listen HOST:PORT",
                    address.host, address.port,
                    errno != 0 ? std::strerror(errno) : "no such address"));
  state->thread = std::thread([&server] { server.listen_after_bind(); });
  // stop() before the loop runs would be lost and leave the thread there for ever.
  while (!server.is_running()) std::this_thread::sleep_for(Milliseconds(1));
  return std::unique_ptr<ReportServer>(new ReportServer(std::move(state)));
}

ReportServer::~ReportServer() {
  state_->server.stop();
  if (state_->thread.joinable()) state_->thread.join();
}

int ReportServer::port() const {
  return state_->port;
}

Result<ListenAddress> parse_listen(const std::string& text) {
  ListenAddress address;
  const std::size_t colon = text.rfind(':');
  const std::size_t bracket = text.rfind(']');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  address.host = has_port ? text.substr(0, colon) : text;
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  bool valid = !address.host.empty();
  if (has_port) {
    const auto port = sequence_of(text.substr(colon + 1));
    valid = valid && port && *port <= 65535;
    if (valid) address.port = static_cast<int>(*port);
  }
  if (valid) return address;
  return fail(ErrorKind::misconfigured,
              fmt::format("\"{}\" is not an address, write --listen HOST:PORT, e.g. 0.0.0.0:{}",
                          text, kDefaultPort));
}

Result<BootstrapProgram> load_bootstrap(const std::string& path) {
  auto bytes = read_text_file(path, kMaxProgramBytes);
  if (!bytes)
    return fail(ErrorKind::misconfigured,
                fmt::format("cannot read the bootstrap {}; give its path with --bootstrap FILE",
                            bytes.error().message()));
  std::string sha256 = aws::sha256_hex(*bytes);
  return BootstrapProgram{std::move(*bytes), std::move(sha256)};
}

}  // namespace warmroot::manager
