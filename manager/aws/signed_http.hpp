// Single signed requests to one service beside EC2 (SQS, EBS direct), with the connection's
// credentials. What an answer means is its codec's business.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "manager/aws/aws_settings.hpp"
#include "manager/aws/http_transport.hpp"
#include "manager/aws/sigv4.hpp"

namespace warmroot::aws {

/// The service's code in an error answer; empty on success.
using CodeOf = std::function<std::string(const HttpReply&)>;

/// One thread.
class SignedHttp {
 public:
  /// Shares the connection's credentials, which outlive it. `service` is its name in signatures.
  /// `give_up` ends a call under way.
  SignedHttp(ServiceAddress address, std::string service, const Connection& connection,
             const std::atomic<bool>* give_up);

  /// `request` without Host, which is put in here. An answer that calls the signature or its keys
  /// wrong or expired is answered by a clock corrected from the Date header or by credentials read
  /// anew, and sent once more if that changed anything. A session token that a refusal repeats is
  /// cut out of it. Errors: as HttpClient's and CredentialCache's.
  Result<HttpReply> send(const SigningRequest& request, Milliseconds timeout,
                         const CodeOf& code_of);

 private:
  Result<HttpReply> send_once(SigningRequest signing, const Credentials& keys,
                              Milliseconds timeout);

  ServiceAddress address_;
  std::string service_;
  std::shared_ptr<CredentialCache> credentials_;
  std::function<Instant()> clock_;
  std::string ca_file_;
  const std::atomic<bool>* give_up_;
  Milliseconds skew_{0};
  HttpClient http_;
};

}  // namespace warmroot::aws
