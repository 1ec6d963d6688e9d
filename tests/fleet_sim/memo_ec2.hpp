// Remembers what the two large listings answered, because writing and reading the same XML again is
// most of a run's time. While the region has not changed, no fault waits for the call and no server
// is behind, the call is not made at all; an answer of the same bytes is not decoded again.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "bootstrap/base/units.hpp"
#include "manager/aws/ec2_codec.hpp"
#include "tests/fleet_process.hpp"
#include "tests/fleet_sim/forwarding_ec2.hpp"

namespace warmroot::fleet {

class MemoEc2 : public ForwardingEc2 {
 public:
  using Version = std::function<std::uint64_t(const std::string& body)>;
  /// `transport` is what `inner` posts to. `version` says which world a listing would show now, 0
  /// when that cannot be told; `pass` lets the time of a call pass, and may throw Crash; `shown` is
  /// told when each thing was seen last.
  MemoEc2(aws::Ec2& inner, WatchedTransport& transport, Version version, std::function<void()> pass,
          std::function<Instant()> now, std::map<std::string, Instant>& shown)
      : ForwardingEc2(inner),
        transport_(transport),
        version_(std::move(version)),
        pass_(std::move(pass)),
        now_(std::move(now)),
        shown_(shown) {}

  Result<aws::Page<aws::Volume>> describe_volumes(const aws::DescribeRequest& request) override {
    return remembered(volumes_, aws::Describe::volumes, request, &aws::Ec2::describe_volumes);
  }
  Result<aws::Page<aws::Instance>> describe_instances(
      const aws::DescribeRequest& request) override {
    return remembered(instances_, aws::Describe::instances, request, &aws::Ec2::describe_instances);
  }

  /// As the client does it: those that are not remembered go out together.
  void expect(const std::vector<std::string>& bodies) override {
    if (bodies.empty()) transport_.early.clear();
    std::vector<std::string> unknown;
    std::vector<Asked> asked;
    for (const auto& body : bodies) {
      const auto version = version_(body);
      if (version != 0 && (volumes_.knows(version, body) || instances_.knows(version, body)))
        continue;
      unknown.push_back(body);
      asked.push_back({now_(), version});
    }
    if (unknown.size() < 2) return;
    auto replies = transport_.post(unknown);
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      if (version_(unknown[i]) != asked[i].version) asked[i].version = 0;
      asked_.insert_or_assign(unknown[i], asked[i]);
      transport_.early.insert_or_assign(unknown[i], std::move(replies[i]));
    }
  }
  std::vector<Result<aws::MutationAnswer>> send(std::span<const aws::EncodedCall> calls) override {
    transport_.early.clear();
    return inner_.send(calls);
  }

 private:
  /// When, and of which version, an early answer was fetched.
  struct Asked {
    Instant at{};
    std::uint64_t version = 0;
  };
  template <typename T>
  struct Memo {
    std::uint64_t version = 0;
    std::map<std::string, aws::Page<T>> pages;                ///< by request, of that version
    std::unordered_map<std::string, aws::Page<T>> decoded{};  ///< by content

    bool knows(std::uint64_t wanted, const std::string& body) const {
      return version == wanted && pages.contains(body);
    }
    void keep(std::uint64_t of, const std::string& body, const aws::Page<T>& page) {
      if (of != version) pages.clear();
      version = of;
      pages.insert_or_assign(body, page);
    }
  };
  template <typename T>
  using Ask = Result<aws::Page<T>> (aws::Ec2::*)(const aws::DescribeRequest&);

  template <typename T>
  Result<aws::Page<T>> remembered(Memo<T>& memo, aws::Describe what,
                                  const aws::DescribeRequest& request, Ask<T> ask) {
    const auto key = aws::encode(what, request);
    const bool early = transport_.early.contains(key);
    const Asked asked = early ? asked_.at(key) : Asked{now_(), version_(key)};
    auto page = early ? decoded(memo, key, request, ask) : look(memo, key, asked, request, ask);
    if (early && page && asked.version != 0) memo.keep(asked.version, key, *page);
    if (page)
      for (const auto& item : page->items) shown_.insert_or_assign(id_of(item), asked.at);
    return page;
  }
  static const std::string& id_of(const aws::Volume& volume) { return volume.volume_id; }
  static const std::string& id_of(const aws::Instance& instance) { return instance.instance_id; }

  template <typename T>
  Result<aws::Page<T>> look(Memo<T>& memo, const std::string& key, const Asked& asked,
                            const aws::DescribeRequest& request, Ask<T> ask) {
    if (asked.version == 0) return decoded(memo, key, request, ask);
    if (memo.knows(asked.version, key)) {
      const auto page = memo.pages.at(key);
      pass_();
      return page;
    }
    auto page = decoded(memo, key, request, ask);
    // Time has passed in the call: what it shows may be newer than the version asked for.
    if (page && version_(key) == asked.version) memo.keep(asked.version, key, *page);
    return page;
  }

  /// Through the client, whose decoder is asked only about what it has not seen.
  template <typename T>
  Result<aws::Page<T>> decoded(Memo<T>& memo, const std::string& key,
                               const aws::DescribeRequest& request, Ask<T> ask) {
    auto reply = std::move(transport_.post({&key, 1}).front());
    std::string content = reply && reply->status == 200 ? without_id(reply->body) : "";
    if (const auto found = memo.decoded.find(content); found != memo.decoded.end())
      return found->second;
    const auto posts = transport_.posts;
    transport_.early.insert_or_assign(key, std::move(reply));
    auto page = (inner_.*ask)(request);
    if (page && !content.empty() && transport_.posts == posts)
      memo.decoded.emplace(std::move(content), *page);
    return page;
  }
  /// An answer without the number that each has of its own.
  static std::string without_id(std::string body) {
    constexpr std::string_view kEnd = "</requestId>";
    const auto from = body.find("<requestId>");
    const auto to = body.find(kEnd);
    if (from < to && to != std::string::npos) body.erase(from, to + kEnd.size() - from);
    return body;
  }

  WatchedTransport& transport_;
  Version version_;
  std::function<void()> pass_;
  std::function<Instant()> now_;
  std::map<std::string, Instant>& shown_;
  std::map<std::string, Asked> asked_;  ///< of each early answer
  Memo<aws::Volume> volumes_;
  Memo<aws::Instance> instances_;
};

}  // namespace warmroot::fleet
