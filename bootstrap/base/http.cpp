#include "bootstrap/base/http.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace warmroot {
namespace {

struct EasyDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

/// One request in flight: libcurl keeps pointers into it, so it stays where it is until the transfer has ended.
struct Transfer {
  std::unique_ptr<CURL, EasyDeleter> easy;
  std::unique_ptr<curl_slist, ListDeleter> headers;
  HttpReply reply;
  std::string_view body;    ///< what is left of it
  bool body_taken = false;  ///< some of it was given to libcurl: the peer may have it
  std::size_t received = 0;
  std::size_t most_received = 0;
  CURLcode code = CURLE_OK;
  bool finished = false;
};

/// False ends the transfer.
bool fits(Transfer& transfer, std::size_t bytes) {
  transfer.received += bytes;
  return transfer.received <= transfer.most_received;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  if (!fits(transfer, size * count)) return 0;
  transfer.reply.body.append(data, size * count);
  return size * count;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* context) {
  if (!fits(*static_cast<Transfer*>(context), size * count)) return 0;
  const std::string_view line(data, size * count);
  const std::size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    std::string_view value = line.substr(colon + 1);
    const std::size_t first = value.find_first_not_of(" \t");
    const std::size_t last = value.find_last_not_of(" \t\r\n");
    value = first == std::string_view::npos ? std::string_view{} : value.substr(first, last - first + 1);
    static_cast<Transfer*>(context)->reply.headers[name] = value;
  }
  return size * count;
}

/// A body is given once: there is no way to rewind it, or libcurl would send the request again by itself when a peer that
/// has read it closes the connection without an answer.
std::size_t on_body_wanted(char* data, std::size_t size, std::size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const std::size_t taken = std::min(size * count, transfer.body.size());
  std::copy_n(transfer.body.data(), taken, data);
  transfer.body.remove_prefix(taken);
  transfer.body_taken = transfer.body_taken || taken > 0;
  return taken;
}

void prepare(Transfer& transfer, const HttpRequest& request) {
  CURL* easy = transfer.easy.get();
  transfer.most_received = request.most_reply_bytes;
  curl_slist* list = nullptr;
  for (const auto& [name, value] : request.headers)
    list = curl_slist_append(list, (value.empty() ? name + ";" : name + ": " + value).c_str());
  list = curl_slist_append(list, "Expect:");
  transfer.headers.reset(list);
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  // libcurl reads the proxies' variables by itself; setting this one hides NO_PROXY from it.
  curl_easy_setopt(easy, CURLOPT_NOPROXY, hosts_without_proxy().c_str());
  if (!request.ca_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, request.ca_file.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);  // these certificates, and not the system's beside them
  }
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  if (request.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET" && request.body.empty()) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t{0});
  } else if (request.method != "GET") {
    transfer.body = request.body;
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_body_wanted);
    curl_easy_setopt(easy, CURLOPT_READDATA, &transfer);
  }
}

/// True when the peer cannot have seen the request. The code is that of the last connection: the one before it may have
/// taken the body.
bool never_sent(CURLcode code, const Transfer& transfer) {
  if (transfer.body_taken) return false;
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL: return true;
    default: break;
  }
  curl_off_t uploaded = 0;
  long request_bytes = 0;
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_SIZE_UPLOAD_T, &uploaded);
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_REQUEST_SIZE, &request_bytes);
  return uploaded == 0 && request_bytes == 0;
}

Result<HttpReply> outcome(Transfer& transfer, const HttpRequest& request) {
  if (transfer.code == CURLE_OK) {
    long status = 0;
    curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &status);
    transfer.reply.status = static_cast<int>(status);
    return std::move(transfer.reply);
  }
  if (transfer.received > transfer.most_received)
    return fail(ErrorKind::unknown_outcome,
                request.method + " " + request.url + ": the answer is larger than " +
                    std::to_string(transfer.most_received >> 20) + " MiB: check that it is the service it should be",
                "AnswerTooLarge");
  const ErrorKind kind =
      never_sent(transfer.code, transfer) ? ErrorKind::retry_later : ErrorKind::unknown_outcome;
  return fail(kind, request.method + " " + request.url + ": " + curl_easy_strerror(transfer.code));
}

}  // namespace

std::string hosts_without_proxy() {
  std::string hosts;
  for (const char* name : {"no_proxy", "NO_PROXY"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    hosts = value;
    break;
  }
  if (hosts == "*") return hosts;
  if (!hosts.empty()) hosts += ',';
  return hosts + "127.0.0.1,localhost,::1,169.254.169.254,fd00:ec2::254,169.254.170.2,169.254.170.23,fd00:ec2::23";
}

struct HttpClient::Handles {
  CURLM* multi = nullptr;
};

HttpClient::HttpClient() : handles_(std::make_unique<Handles>()) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  CHECK(initialised == CURLE_OK);
  handles_->multi = curl_multi_init();
  CHECK(handles_->multi != nullptr);
}

HttpClient::~HttpClient() {
  curl_multi_cleanup(handles_->multi);
}

Result<HttpReply> HttpClient::perform(const HttpRequest& request) {
  return std::move(perform_all({&request, 1}).front());
}

std::vector<Result<HttpReply>> HttpClient::perform_all(std::span<const HttpRequest> requests) {
  std::vector<Transfer> transfers(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    transfers[i].easy.reset(curl_easy_init());
    CHECK(transfers[i].easy != nullptr);
    prepare(transfers[i], requests[i]);
    curl_multi_add_handle(handles_->multi, transfers[i].easy.get());
  }
  const bool can_give_up =
      std::any_of(requests.begin(), requests.end(), [](const HttpRequest& request) { return request.give_up != nullptr; });
  const auto given_up = [&] {
    return can_give_up && std::any_of(requests.begin(), requests.end(), [](const HttpRequest& request) {
             return request.give_up != nullptr && *request.give_up;
           });
  };
  int running = 0;
  do {
    if (curl_multi_perform(handles_->multi, &running) != CURLM_OK) break;
    if (running > 0) curl_multi_poll(handles_->multi, nullptr, 0, can_give_up ? 100 : 1000, nullptr);
  } while (running > 0 && !given_up());
  int queued = 0;
  while (CURLMsg* message = curl_multi_info_read(handles_->multi, &queued)) {
    if (message->msg != CURLMSG_DONE) continue;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    transfer->code = message->data.result;
    transfer->finished = true;
  }
  std::vector<Result<HttpReply>> results;
  results.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!transfers[i].finished) transfers[i].code = CURLE_ABORTED_BY_CALLBACK;
    results.push_back(outcome(transfers[i], requests[i]));
    curl_multi_remove_handle(handles_->multi, transfers[i].easy.get());
  }
  return results;
}

}  // namespace warmroot
