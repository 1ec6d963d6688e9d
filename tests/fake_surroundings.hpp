// Surroundings that exist only in a test: variables, files, a scripted HTTP peer, a scripted
// program and a clock that stands still. Used by the tests of credentials, Regions and endpoints.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "manager/aws/credentials.hpp"

namespace warmroot::aws {

using Texts = std::map<std::string, std::string>;

inline constexpr const char* kCredentials = "/home/op/.aws/credentials";
inline constexpr const char* kConfig = "/home/op/.aws/config";

inline HttpReply ok(const std::string& body) {
  return {200, {}, body};
}

/// Everything that was asked is kept.
struct FakeSurroundings {
  Texts variables{{"HOME", "/home/op"}};
  Texts files;
  Instant now = *parse_iso8601("2026-01-02T03:04:05Z");
  /// Answers a request; the default is a network without anybody.
  std::function<Result<HttpReply>(const HttpRequest&)> peer = [](const HttpRequest& request) {
    return Result<HttpReply>(
        fail(ErrorKind::retry_later, request.method + " " + request.url + ": no connection"));
  };
  std::function<Result<Secret>(const std::vector<std::string>&, const ProcessLimits&)> program;
  std::vector<HttpRequest> requests;
  std::vector<std::vector<std::string>> runs;

  FakeSurroundings() = default;
  FakeSurroundings(const Texts& set, Texts present) : files(std::move(present)) {
    for (const auto& [name, value] : set) variables[name] = value;
  }
  FakeSurroundings(const FakeSurroundings&) = delete;

  Surroundings get() {
    Surroundings out;
    out.variable = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    };
    out.read_file = [this](const std::string& path) -> Result<std::string> {
      const auto found = files.find(path);
      if (found == files.end()) return fail(ErrorKind::gone, path + ": no such file");
      return found->second;
    };
    out.write_file = [this](const std::string& path, const Secret& text) -> Ok {
      files[path] = text.reveal();
      return {};
    };
    out.http = [this](const HttpRequest& request) {
      requests.push_back(request);
      return peer(request);
    };
    out.run = [this](const std::vector<std::string>& arguments, const ProcessLimits& limits) {
      runs.push_back(arguments);
      return program ? program(arguments, limits)
                     : Result<Secret>(fail(ErrorKind::gone, arguments.front() + ": not found"));
    };
    out.now = [this] { return now; };
    return out;
  }

  Result<FoundCredentials> find(const std::string& profile = {}) {
    return resolve_credentials({profile, "", ""}, get());
  }
};

inline std::string keys_of(const Result<FoundCredentials>& found) {
  if (!found) return "error: " + found.error().message();
  return found->credentials.access_key_id + "/" + found->credentials.secret_access_key.reveal() +
         "/" + found->credentials.session_token.reveal();
}

inline std::string header_of(const HttpRequest& request, const std::string& name) {
  for (const auto& [key, value] : request.headers)
    if (key == name) return value;
  return {};
}

}  // namespace warmroot::aws
