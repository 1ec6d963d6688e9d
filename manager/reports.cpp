#include "manager/reports.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "bootstrap/warm/hot_list.hpp"
#include "manager/aws/sigv4.hpp"
#include "manager/clock.hpp"
#include "manager/config.hpp"
#include "manager/report_desk.hpp"
#include "manager/report_listener.hpp"
#include "manager/reports_codec.hpp"

namespace warmroot::manager {
namespace {

/// cpp-httplib gives each open connection a thread, also while nothing is said on it.
constexpr std::size_t kThreads = 32;
constexpr time_t kSilentSeconds = 2;
constexpr time_t kReadTimeoutSeconds = 10;
constexpr time_t kWriteTimeoutSeconds = 30;
constexpr const char* kJson = "application/json";

void answer(httplib::Response& reply, int status, const std::string& body) {
  reply.status = status;
  reply.set_content(body, kJson);
}

void answer_error(httplib::Response& reply, int status, const std::string& text) {
  answer(reply, status, error_answer(text));
}

/// For whoever would take a 404 for the last word.
void answer_too_early(httplib::Response& reply) {
  answer_error(reply, 503, "the manager has not looked at EC2 yet, ask again");
}

SignedBody signed_body(const httplib::Request& request) {
  return {request.get_header_value("X-Warmroot-Instance"),
          request.get_header_value("X-Warmroot-Sequence"),
          request.get_header_value("X-Warmroot-Signature"), request.body};
}

}  // namespace

struct ReportServer::State {
  State(AdmissionRules rules, ReportBoard& board_in, KeyStore& keys_in,
        const BootstrapProgram& program_in, HotLists& hot_lists_in, Pages pages_in)
      : board(board_in),
        desk(std::move(rules), board_in, keys_in,
             {[] { return std::chrono::steady_clock::now(); }, wall_clock}),
        program(program_in),
        hot_lists(hot_lists_in),
        pages(std::move(pages_in)) {}

  void take_hot_list(const httplib::Request& request, httplib::Response& reply);
  void give_hot_list(const httplib::Request& request, httplib::Response& reply);
  void give_block_list(const httplib::Request& request, httplib::Response& reply);
  void give_program(const httplib::Request& request, httplib::Response& reply);
  /// Whether the instance's key signed the request; answers otherwise.
  bool authentic(const httplib::Request& request, httplib::Response& reply);
  void route();

  ReportBoard& board;
  ReportDesk desk;
  const BootstrapProgram& program;
  HotLists& hot_lists;
  Pages pages;
  ReportListener server;
  int port = 0;
  std::thread thread;
};

bool ReportServer::State::authentic(const httplib::Request& request, httplib::Response& reply) {
  const auto fault = desk.find_fault(signed_body(request));
  if (fault) answer(reply, fault->status, fault->body);
  return !fault;
}

/// By the lineage of the volume that we have given it, whatever it says itself. With "?so-far=1" it
/// records on, with "?asked=1" somebody on the node has asked for it.
void ReportServer::State::take_hot_list(const httplib::Request& request, httplib::Response& reply) {
  if (!authentic(request, reply)) return;
  const auto instance_id = request.get_header_value("X-Warmroot-Instance");
  const auto known = board.known(instance_id);
  if (!board.has_looked()) return answer_too_early(reply);
  if (!known || known->lineage.empty())
    return answer_error(reply, 404, "no volume of a known lineage is attached to this instance");
  const Teacher from{known->pool, known->lineage, known->volume_id, instance_id};
  const Ok added = request.has_param("asked")    ? hot_lists.add_asked(from, request.body)
                   : request.has_param("so-far") ? hot_lists.add_so_far(from, request.body)
                                                 : hot_lists.add(from, request.body);
  if (!added)
    return answer_error(reply, added.error().kind == ErrorKind::refused ? 400 : 503,
                        added.error().message());
  answer(reply, 200, "{}");
}

/// The lineage's own; with "?of=pool" the latest of the pool's other lineages, of which only the
/// names of files mean something to whoever asks.
void ReportServer::State::give_hot_list(const httplib::Request& request, httplib::Response& reply) {
  if (!authentic(request, reply)) return;
  if (!board.has_looked()) return answer_too_early(reply);
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
  if (!board.has_looked()) return answer_too_early(reply);
  const auto known = board.known(request.get_header_value("X-Warmroot-Instance"));
  const auto list = known && known->block_list && pages.block_list
                        ? pages.block_list(known->snapshot_id)
                        : std::nullopt;
  if (!list) return answer_error(reply, 404, "there is no block list of the volume's snapshot");
  reply.set_content(*list, "application/octet-stream");
}

void give(std::shared_ptr<const std::string> bytes, httplib::Response& reply) {
  const std::size_t size = bytes->size();
  reply.set_content_provider(
      size, "application/octet-stream",
      [bytes = std::move(bytes)](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
        return sink.write(bytes->data() + offset, length);
      });
}

/// The one of "?sha256=", which the instance was launched with. Who asks for one that is not there
/// gets ours, and says what is wrong with it.
void ReportServer::State::give_program(const httplib::Request& request, httplib::Response& reply) {
  const auto sha256 = request.get_param_value("sha256");
  if (!sha256.empty() && sha256 != program.sha256 && pages.earlier_program)
    if (auto earlier = pages.earlier_program(sha256)) return give(std::move(earlier), reply);
  // Not ours: it outlives the server.
  give({std::shared_ptr<const std::string>(), &program.bytes}, reply);
}

void ReportServer::State::route() {
  using httplib::Request;
  using httplib::Response;
  server.Post("/v1/hello", [this](const Request& request, Response& reply) {
    const auto said = desk.hello(request.body, request.remote_addr);
    answer(reply, said.status, said.body);
  });
  server.Post("/v1/report", [this](const Request& request, Response& reply) {
    if (!authentic(request, reply)) return;
    const auto said = desk.report(signed_body(request));
    answer(reply, said.status, said.body);
  });
  server.Post("/v1/hot-list",
              [this](const Request& request, Response& reply) { take_hot_list(request, reply); });
  server.Get("/v1/hot-list",
             [this](const Request& request, Response& reply) { give_hot_list(request, reply); });
  server.Get("/v1/block-list",
             [this](const Request& request, Response& reply) { give_block_list(request, reply); });
  server.Get("/bootstrap/warmroot-bootstrap",
             [this](const Request& request, Response& reply) { give_program(request, reply); });
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
        parse_sequence(request.get_header_value("Content-Length")).value_or(0) > kMaxReportBytes) {
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
  ReportListener& server = state->server;
  server.new_task_queue = [] { return new BoundedPool(kThreads); };
  server.set_keep_alive_timeout(kSilentSeconds);  // of a connection's first byte
  server.set_read_timeout(kReadTimeoutSeconds);
  server.set_write_timeout(kWriteTimeoutSeconds);
  server.set_payload_max_length(warm::kMostListBytes);
  state->route();
  errno = 0;
  state->port = server.listen_on(address);
  if (state->port < 0)
    return fail(
        ErrorKind::misconfigured,
        fmt::format("cannot listen on {}:{}: {}; choose another address with --listen HOST:PORT",
                    address.host, address.port,
                    errno != 0 ? std::strerror(errno) : "no such address"));
  state->thread = std::thread([state = state.get()] {
    state->server.serve(state->pages.on_port ? state->pages.on_port : [](bool) {});
  });
  return std::unique_ptr<ReportServer>(new ReportServer(std::move(state)));
}

ReportServer::~ReportServer() {
  state_->server.end();
  state_->thread.join();
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
    const auto port = parse_sequence(std::string_view(text).substr(colon + 1));
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
