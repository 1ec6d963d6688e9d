// HTTP as both programs need it: whole requests, whole replies, several at once. The only file that includes libcurl is
// http.cpp. Knows nothing of AWS.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;  ///< sent as given; Host is libcurl's
  std::string body;
  std::string ca_file;  ///< certificates to trust for https; empty: the system's
  /// Name, connection and TLS. A name server that does not answer takes 5 s of it before the next one is asked.
  /// Source: resolv.conf(5).
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds timeout{30000};
  /// Headers and body together. The largest answer that anybody asks for, 1,000 instances of EC2, is about 8 MB; a peer
  /// that sends more is cut off before it fills the memory.
  std::size_t most_reply_bytes = std::size_t{32} << 20;
  const std::atomic<bool>* give_up = nullptr;  ///< once true, a call under way ends: for long polls
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

/// Hosts that no proxy is asked for: NO_PROXY's, this host, and the link-local services of EC2, ECS and EKS.
std::string hosts_without_proxy();

/// Keeps connections alive between requests. Certificates are always verified; proxies are those of http_proxy (for
/// plain HTTP), HTTPS_PROXY and ALL_PROXY. One thread.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Any HTTP status is a reply. Errors: retry_later when nothing can have reached the peer (no name, no connection),
  /// unknown_outcome when the request may have been received (timeout or reset after connecting).
  Result<HttpReply> perform(const HttpRequest& request);

  /// The same for several requests in flight together; results in the order of the requests.
  std::vector<Result<HttpReply>> perform_all(std::span<const HttpRequest> requests);

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace warmroot
