// See the header.
#include "tests/sim/server.hpp"

#include <httplib.h>

#include <algorithm>
#include <ctime>

#include "bootstrap/base/words.hpp"
#include "manager/listening.hpp"
#include "tests/sim/control.hpp"
#include "tests/sim/server_identity.hpp"

namespace warmroot::sim {

namespace {

/// A connection keeps its thread while it is open; a manager opens some tens.
constexpr int kThreads = 64;
constexpr int kKeepAliveSeconds = 2;  // also how long stop() can take
constexpr int kKeepAliveRequests = 100'000;
/// User-data of 16 KiB in base64 and percent signs stays well below.
constexpr std::size_t kMaxBody = 1 << 20;

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text;
}

SignedRequest as_signed(const httplib::Request& request, const std::string& body) {
  SignedRequest out{request.method, request.target, {}, body};
  for (const auto& [name, value] : request.headers) {
    std::string header = lower(name);
    // httplib adds these two to what the client sent.
    if (header != "remote_addr" && header != "remote_port")
      out.headers.emplace_back(std::move(header), value);
  }
  return out;
}

void write_reply(const QueryReply& reply, httplib::Response& response) {
  response.status = reply.status;
  response.set_header("Server", "AmazonEC2");
  response.set_header("Date", http_date());
  response.set_header("x-amzn-requestid", reply.request_id);
  response.set_header("Cache-Control", "no-cache, no-store");
  if (reply.status >= 400) response.set_header("Connection", "close");
  if (reply.lost)  // promises a body and hangs up instead
    response.set_content_provider(
        1024, reply.content_type.c_str(),
        [](std::size_t, std::size_t, httplib::DataSink&) { return false; });
  else
    response.set_content(reply.body, reply.content_type);
}

}  // namespace

struct RegionServer::Http {
  explicit Http(RegionServer& owner_in) : owner(owner_in) {
    server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server.set_keep_alive_timeout(kKeepAliveSeconds);
    server.set_keep_alive_max_count(kKeepAliveRequests);
    server.set_payload_max_length(kMaxBody);
    server.set_tcp_nodelay(true);
    server.Get("/", [this](const httplib::Request& request, httplib::Response& response) {
      query(request, "", response);
    });
    // With a reader of our own: httplib's handling of forms stops at 8 KiB.
    server.Post("/", [this](const httplib::Request& request, httplib::Response& response,
                            const httplib::ContentReader& reader) {
      std::string body;
      reader([&](const char* data, std::size_t size) {
        body.append(data, size);
        return body.size() <= kMaxBody;
      });
      const std::string target = request.get_header_value("X-Amz-Target");
      if (!AccountServices::service_of(target).empty())
        account(request, target, body, response);
      else if (!target.empty())
        sqs(request, body, response);
      else
        query(request, body, response);
    });
    server.Get("/snapshots/.*",
               [this](const httplib::Request& request, httplib::Response& response) {
                 ebs_direct(request, response);
               });
    server.Post("/token", [this](const httplib::Request& request, httplib::Response& response) {
      identify(request, request.body, response);
    });
    // Before routing, because httplib waits for the body of a POST that says no length.
    server.set_pre_routing_handler([this](const httplib::Request& request,
                                          httplib::Response& response) {
      if (request.path != "/" && request.path != "/token" && identify(request, "", response))
        return httplib::Server::HandlerResponse::Handled;
      if (!request.path.starts_with("/_control/"))
        return httplib::Server::HandlerResponse::Unhandled;
      const std::lock_guard lock(owner.mutex_);
      owner.region_.advance(wall_clock());
      const ControlReply reply = control(
          {owner.region_, owner.front_, owner.sqs_, owner.events_}, request.method, request.path,
          [&](const std::string& name) { return request.get_param_value(name.c_str()); });
      response.status = reply.status;
      if (request.get_header_value<std::uint64_t>("Content-Length") != 0)
        response.set_header("Connection", "close");  // the body was not read
      response.set_content(reply.body, "application/json");
      return httplib::Server::HandlerResponse::Handled;
    });
  }

  /// True when the request was one of the identity doors' or their control's.
  bool identify(const httplib::Request& request, const std::string& body,
                httplib::Response& response) {
    const auto parameter = [&](const std::string& name) {
      return request.get_param_value(name.c_str());
    };
    const std::lock_guard lock(owner.mutex_);
    auto reply =
        identity_control(owner.identity_, request.method, request.path, parameter, wall_clock());
    if (!reply)
      reply = identity_door(owner.identity_, as_signed(request, body), request.path, parameter,
                            wall_clock());
    if (!reply) return false;
    response.status = reply->status;
    response.set_header("Date", http_date());
    if (request.get_header_value<std::uint64_t>("Content-Length") != body.size())
      response.set_header("Connection", "close");  // the body was not read
    response.set_content(reply->body, reply->content_type.c_str());
    return true;
  }

  void query(const httplib::Request& request, const std::string& body,
             httplib::Response& response) {
    if (identify(request, body, response)) return;
    const SignedRequest whole = as_signed(request, body);
    const std::lock_guard lock(owner.mutex_);
    const Instant now = wall_clock();
    if (auto verified = owner.identity_.verify(whole, "ec2", now); !verified)
      return write_reply(owner.front_.error(verified.error()), response);
    owner.region_.advance(now);
    const auto question = std::min(request.target.find('?'), request.target.size());
    const std::string form = request.method == "GET" && question < request.target.size()
                                 ? request.target.substr(question + 1)
                                 : body;
    write_reply(owner.front_.answer(form), response);
  }

  /// A receive that finds nothing is asked again until its wait is over; nobody else waits for it.
  void sqs(const httplib::Request& request, const std::string& body, httplib::Response& response) {
    const SignedRequest whole = as_signed(request, body);
    const std::string target = request.get_header_value("X-Amz-Target");
    const auto asked = std::chrono::steady_clock::now();
    std::unique_lock lock(owner.mutex_);
    const Instant now = wall_clock();
    SqsReply reply;
    if (auto verified = owner.identity_.verify(whole, "sqs", now); !verified) {
      reply = owner.sqs_.error(verified.error().code, verified.error().message,
                               verified.error().status);
    } else {
      owner.region_.advance(now);
      reply = owner.sqs_.answer(target, body);
      while (reply.empty_receive && owner.running_ &&
             std::chrono::steady_clock::now() - asked < reply.wait) {
        lock.unlock();
        std::this_thread::sleep_for(kTick);
        lock.lock();
        owner.region_.advance(wall_clock());
        reply = owner.sqs_.answer(target, body);
      }
    }
    response.status = reply.status;
    response.set_header("Date", http_date());
    response.set_header("x-amzn-requestid", reply.request_id);
    if (!reply.code.empty()) response.set_header("x-amzn-errortype", reply.code);
    response.set_content(reply.body, "application/x-amz-json-1.0");
  }

  void account(const httplib::Request& request, const std::string& target, const std::string& body,
               httplib::Response& response) {
    const SignedRequest whole = as_signed(request, body);
    const std::lock_guard lock(owner.mutex_);
    const Instant now = wall_clock();
    AccountReply reply;
    if (auto verified = owner.identity_.verify(whole, AccountServices::service_of(target), now);
        !verified) {
      reply = AccountServices::error(verified.error().code, verified.error().message,
                                     verified.error().status);
    } else {
      owner.region_.advance(now);
      reply = owner.account_services_.answer(target, body);
    }
    response.status = reply.status;
    response.set_header("Date", http_date());
    response.set_header("x-amzn-requestid", "00000000-0000-4000-b000-000000000001");
    if (!reply.code.empty()) response.set_header("x-amzn-errortype", reply.code);
    response.set_content(reply.body, "application/x-amz-json-1.1");
  }

  void ebs_direct(const httplib::Request& request, httplib::Response& response) {
    const SignedRequest whole = as_signed(request, "");
    const std::lock_guard lock(owner.mutex_);
    const Instant now = wall_clock();
    EbsReply reply;
    if (auto verified = owner.identity_.verify(whole, "ebs", now); !verified) {
      reply = owner.ebs_direct_.error(verified.error().code, "", verified.error().message,
                                      verified.error().status);
    } else {
      owner.region_.advance(now);
      reply = owner.ebs_direct_.answer(request.method, request.path, [&](const std::string& name) {
        return request.get_param_value(name.c_str());
      });
    }
    response.status = reply.status;
    response.set_header("Date", http_date());
    response.set_header("x-amzn-requestid", reply.request_id);
    if (!reply.type.empty()) response.set_header("x-amzn-errortype", reply.type);
    response.set_content(reply.body, "application/json");
  }

  RegionServer& owner;
  httplib::Server server;
};

Instant RegionServer::wall_clock() {
  return std::chrono::floor<Milliseconds>(std::chrono::system_clock::now());
}

RegionServer::RegionServer(Region& region, ServerOptions options)
    : region_(region),
      options_(std::move(options)),
      front_(region),
      sqs_(region, ""),
      events_(region, sqs_),
      ebs_direct_(region),
      account_services_(region),
      identity_(options_.keys, region.catalog().account_id),
      imds_(region, mutex_) {
  front_.set_throttle_scale(options_.throttle_scale);
  identity_.life = options_.credential_life;
  // A slow answer keeps its own caller waiting, and nobody else.
  front_.pass_time = [this](Milliseconds time) {
    mutex_.unlock();
    std::this_thread::sleep_for(time);
    mutex_.lock();
    region_.advance(wall_clock());
  };
}

RegionServer::~RegionServer() {
  stop();
}

Ok RegionServer::start() {
  http_ = std::make_unique<Http>(*this);
  port_ = manager::bind_and_listen(http_->server, "127.0.0.1", options_.port);
  if (port_ <= 0)
    return fail(ErrorKind::misconfigured,
                "cannot listen on 127.0.0.1:" + std::to_string(options_.port));
  sqs_.set_base_url(endpoint());
  region_.open_imds = [this](const std::string& id) { return imds_.open(id); };
  region_.close_imds = [this](const std::string& id) { imds_.close(id); };
  running_ = true;
  listener_ = std::thread([this] { http_->server.listen_after_bind(); });
  ticker_ = std::thread([this] { tick(); });
  while (!http_->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return {};
}

void RegionServer::tick() {
  while (running_) {
    {
      const std::lock_guard lock(mutex_);
      region_.advance(wall_clock());
    }
    imds_.reap();
    std::this_thread::sleep_for(kTick);
  }
}

void RegionServer::stop() {
  if (!running_.exchange(false)) return;
  http_->server.stop();
  ticker_.join();
  listener_.join();
  {
    const std::lock_guard lock(mutex_);
    region_.power_off_all();
    region_.open_imds = nullptr;
    region_.close_imds = nullptr;
  }
  imds_.reap();
}

}  // namespace warmroot::sim
