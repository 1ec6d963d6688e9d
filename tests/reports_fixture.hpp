// A report server with one instance of one pool that it knows, and what that instance says to it.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "manager/reports.hpp"
#include "manager/reports_codec.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {

using nlohmann::json;

inline constexpr const char* kInstance = "i-0123456789abcdef0";
inline constexpr const char* kVolume = "vol-0123456789abcdef0";

/// Counts the releases that are kept beyond the process.
class CountingKeys : public MemoryKeyStore {
 public:
  Ok keep_departure(const core::NodeReport& report) override {
    if (report.stage == NodeStage::released) ++releases;
    if (meanwhile) meanwhile();
    return {};
  }
  std::function<void()> meanwhile;  ///< what happens before the report is on the board
  std::atomic<int> releases = 0;
};

class Reports : public testing::Test {
 protected:
  Reports() {
    program_.bytes = std::string(3'000'000, 'x') + "end";
    auto server = ReportServer::start(
        {"127.0.0.1", 0}, {}, board_, keys_, program_, hot_lists_,
        {[] { return std::string("{\"stable\":true}"); },
         [] { return std::string("warmroot_nodes 2\n"); }, [this] { return healthy_.load(); },
         [](const std::string& snapshot) {
           return snapshot == "snap-0imagenet00000001" ? std::optional(std::string("\0packed", 7))
                                                       : std::nullopt;
         },
         [](const std::string& sha256) {
           return sha256 == "earlier" ? std::make_shared<const std::string>("of before") : nullptr;
         }});
    CHECK(server.has_value());
    server_ = std::move(*server);
    client_ = std::make_unique<httplib::Client>("127.0.0.1", server_->port());
    board_.set_known("research", {{kInstance, {"imagenet", "imagenet-0", kVolume, false}}});
  }

  httplib::Result hello(const std::string& pool = "imagenet",
                        const std::string& deployment = "research",
                        const std::string& instance = kInstance) {
    return client_->Post(
        "/v1/hello",
        json{{"version", 1}, {"instance_id", instance}, {"deployment", deployment}, {"pool", pool}}
            .dump(),
        "application/json");
  }
  std::string key() { return json::parse(hello()->body)["key"]; }

  static std::string body(const std::string& stage = "mounted") {
    return json{{"version", 1},   {"instance_id", kInstance}, {"volume_id", kVolume},
                {"stage", stage}, {"message", "so far"},      {"status", {{"warmth", 0.5}}}}
        .dump();
  }
  httplib::Result report(const std::string& text, std::uint64_t sequence,
                         const std::string& signature) {
    const httplib::Headers headers = {{"X-Warmroot-Instance", kInstance},
                                      {"X-Warmroot-Sequence", std::to_string(sequence)},
                                      {"X-Warmroot-Signature", signature}};
    return client_->Post("/v1/report", headers, text, "application/json");
  }
  httplib::Result signed_report(const std::string& key_hex, const std::string& text,
                                std::uint64_t sequence) {
    return report(text, sequence, report_signature(Secret(key_hex), sequence, text));
  }

  ReportBoard board_;
  CountingKeys keys_;
  BootstrapProgram program_;
  const TemporaryDirectory folder_;
  HotLists hot_lists_{folder_.path() + "/hot-lists"};
  std::atomic<bool> healthy_ = true;
  std::unique_ptr<ReportServer> server_;
  std::unique_ptr<httplib::Client> client_;
};

}  // namespace warmroot::manager
