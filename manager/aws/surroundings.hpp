// What finding credentials touches: variables, files, HTTP, processes and the clock, as functions,
// so that tests need none of the real ones.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/base/secret.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::aws {

/// What a program is given and may give back.
struct ProcessLimits {
  Milliseconds timeout{60'000};  ///< source: the Go SDK's limit for credential_process
  std::size_t output = 64 * 1024;
};

struct Surroundings {
  /// The variable's value; nullopt when unset. An empty variable counts as unset.
  std::function<std::optional<std::string>(const std::string& name)> variable;
  /// The whole file. Errors: gone when there is none.
  std::function<Result<std::string>(const std::string& path)> read_file;
  /// Replaces the file as a whole, readable by its owner alone.
  std::function<Ok(const std::string& path, const Secret& text)> write_file;
  /// One request. Errors: as HttpClient's.
  std::function<Result<HttpReply>(const HttpRequest& request)> http;
  /// Runs a program without a shell and returns what it wrote to stdout. Errors: refused for a
  /// status other than 0, too much output or too much time.
  std::function<Result<Secret>(const std::vector<std::string>& arguments,
                               const ProcessLimits& limits)>
      run;
  std::function<Instant()> now;
  /// Between two attempts; empty: no waiting.
  std::function<void(Milliseconds)> sleep;

  /// The variable's value; empty where it is unset.
  std::string value(const std::string& name) const { return variable(name).value_or(""); }
  /// True for "true" in any case, as the SDKs read their switches.
  bool is_on(const std::string& name) const;
};

bool says_true(const std::string& text);

/// The real ones. HTTP keeps its connections; one thread at a time.
Surroundings real_surroundings();

/// HOME, or where a service has none the user's of the password database, as the AWS SDKs take it.
/// Empty: neither is there.
std::string home_directory();

}  // namespace warmroot::aws
