// Where EC2 is: a parsed endpoint URL, and the default one of a Region. Pure.
#pragma once

#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"

namespace warmroot::aws {

struct Endpoint {
  std::string scheme;  ///< http | https
  std::string host;    ///< lower case; an IPv6 address keeps its brackets
  int port = 0;        ///< 0: the scheme's own

  /// "http://127.0.0.1:8080/"
  std::string url() const;
  /// The Host header as libcurl will send it, and as it has to be signed: with the port where it is
  /// not the scheme's.
  std::string host_header() const;
};

/// Parses `http[s]://host[:port][/]`. Errors: misconfigured, saying what is wrong.
Result<Endpoint> parse_endpoint(std::string_view url);

/// https://ec2.<region>.<suffix of the Region's partition>. Errors: misconfigured for what cannot
/// be a Region's name.
Result<Endpoint> default_ec2_endpoint(std::string_view region);

}  // namespace warmroot::aws
