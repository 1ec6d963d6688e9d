// Remembers what the two large listings answered, because writing and reading the same XML again is
// most of a run's time. While the region has not changed, no fault waits for the call and no server
// is behind, the call is not made at all; an item of the same bytes is not decoded again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bootstrap/base/units.hpp"
#include "manager/aws/ec2_codec.hpp"
#include "tests/fleet_process.hpp"
#include "tests/fleet_sim/forwarding_ec2.hpp"

namespace warmroot::fleet {

/// A listing as the region writes it, cut at the items of its list.
struct CutPage {
  std::string_view head;
  std::vector<std::string_view> items;
  std::string_view tail;

  /// Nothing for a text of another shape. The list is the answer's child, indented as such.
  static std::optional<CutPage> of(std::string_view text) {
    constexpr std::string_view kOpen = "\n        <item>\n";
    constexpr std::string_view kClose = "\n        </item>\n";
    const auto first = text.find(kOpen);
    const auto last = text.rfind(kClose);
    if (first == text.npos || last == text.npos || last < first) return std::nullopt;
    const auto end = last + kClose.size();
    CutPage cut{text.substr(0, first + 1), {}, text.substr(end)};
    for (auto at = first + 1; at < end;) {
      if (text.substr(at - 1, kOpen.size()) != kOpen) return std::nullopt;
      const auto close = text.find(kClose, at);
      if (close == text.npos) return std::nullopt;
      cut.items.push_back(text.substr(at, close + kClose.size() - at));
      at = close + kClose.size();
    }
    return cut;
  }
};

class MemoEc2 : public ForwardingEc2 {
 public:
  using Version = std::function<std::uint64_t(const std::string& body)>;
  /// `transport` is what `inner` posts to. `version` says which world a listing would show now, 0
  /// when that cannot be told; `pass` lets the time of a call pass, and may throw Crash; `shown` is
  /// told when each thing was seen last.
  MemoEc2(aws::Ec2& inner, WatchedTransport& transport, Version version,
          std::function<void(const std::string& body)> pass, std::function<Instant()> now,
          std::map<std::string, Instant>& shown)
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

  /// What it answers changes with time alone: it is always asked for.
  Result<aws::Page<aws::InstanceStatus>> describe_instance_status(
      const aws::DescribeRequest& request) override {
    TRY_ASSIGN(const auto known,
               decoded(statuses_, aws::encode(aws::Describe::instance_status, request), request,
                       &aws::Ec2::describe_instance_status));
    return page_of(known);
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
  struct Known {
    std::vector<std::shared_ptr<const T>> items;
    std::string next_token;
  };
  template <typename T>
  using Decode = Result<aws::Page<T>> (*)(const HttpReply&);
  template <typename T>
  struct Memo {
    Decode<T> decode;
    std::uint64_t version = 0;
    std::map<std::string, Known<T>> pages{};  ///< by request, of that version
    /// By their text.
    std::unordered_map<std::string, std::vector<std::shared_ptr<const T>>> items{};
    std::unordered_map<std::string, std::string> next_tokens{};  ///< by the text around the items

    bool knows(std::uint64_t wanted, const std::string& body) const {
      return version == wanted && pages.contains(body);
    }
    void keep(std::uint64_t of, const std::string& body, const Known<T>& page) {
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
    auto known = early ? decoded(memo, key, request, ask) : look(memo, key, asked, request, ask);
    if (!known) return fail(std::move(known).error());
    if (early && asked.version != 0) memo.keep(asked.version, key, *known);
    for (const auto& item : known->items) shown_.insert_or_assign(id_of(*item), asked.at);
    return page_of(*known);
  }
  template <typename T>
  static aws::Page<T> page_of(const Known<T>& known) {
    aws::Page<T> page;
    page.next_token = known.next_token;
    page.items.reserve(known.items.size());
    for (const auto& item : known.items) page.items.push_back(*item);
    return page;
  }
  static const std::string& id_of(const aws::Volume& volume) { return volume.volume_id; }
  static const std::string& id_of(const aws::Instance& instance) { return instance.instance_id; }

  template <typename T>
  Result<Known<T>> look(Memo<T>& memo, const std::string& key, const Asked& asked,
                        const aws::DescribeRequest& request, Ask<T> ask) {
    if (asked.version == 0) return decoded(memo, key, request, ask);
    if (memo.knows(asked.version, key)) {
      auto page = memo.pages.at(key);
      pass_(key);
      return page;
    }
    auto page = decoded(memo, key, request, ask);
    // Time has passed in the call: what it shows may be newer than the version asked for.
    if (page && version_(key) == asked.version) memo.keep(asked.version, key, *page);
    return page;
  }

  /// What the decoder makes of the answer; it is asked only about items that it has not seen.
  /// Whatever is not a plain page goes through the client, which may ask again.
  template <typename T>
  Result<Known<T>> decoded(Memo<T>& memo, const std::string& key,
                           const aws::DescribeRequest& request, Ask<T> ask) {
    auto reply = std::move(transport_.post({&key, 1}).front());
    if (reply && reply->status == 200)
      if (auto known = in_pieces(memo, *reply)) return std::move(*known);
    transport_.early.insert_or_assign(key, std::move(reply));
    TRY_ASSIGN(auto page, (inner_.*ask)(request));
    Known<T> known;
    known.next_token = std::move(page.next_token);
    for (auto& item : page.items) known.items.push_back(std::make_shared<const T>(std::move(item)));
    return known;
  }
  template <typename T>
  std::optional<Known<T>> in_pieces(Memo<T>& memo, const HttpReply& reply) {
    const auto cut = CutPage::of(reply.body);
    if (!cut) return std::nullopt;
    HttpReply piece{reply.status, reply.headers, {}};
    const auto asked = [&](std::string_view item) {
      piece.body.assign(cut->head).append(item).append(cut->tail);
      return memo.decode(piece);
    };
    Known<T> known;
    const auto token = memo.next_tokens.find(without_id(cut->head) + std::string(cut->tail));
    if (token != memo.next_tokens.end()) {
      known.next_token = token->second;
    } else {
      const auto page = asked({});
      if (!page || !page->items.empty()) return std::nullopt;
      known.next_token = page->next_token;
      memo.next_tokens.emplace(without_id(cut->head) + std::string(cut->tail), page->next_token);
    }
    for (const auto& text : cut->items) {
      const auto [entry, fresh] = memo.items.try_emplace(std::string(text));
      auto& items = entry->second;
      if (fresh) {
        auto page = asked(text);
        if (!page) {
          memo.items.erase(entry);
          return std::nullopt;
        }
        for (auto& item : page->items) items.push_back(std::make_shared<const T>(std::move(item)));
      }
      known.items.insert(known.items.end(), items.begin(), items.end());
    }
    return known;
  }
  /// An answer without the number that each has of its own.
  static std::string without_id(std::string_view text) {
    constexpr std::string_view kEnd = "</requestId>";
    std::string body(text);
    const auto from = body.find("<requestId>");
    const auto to = body.find(kEnd);
    if (from < to && to != std::string::npos) body.erase(from, to + kEnd.size() - from);
    return body;
  }

  WatchedTransport& transport_;
  Version version_;
  std::function<void(const std::string& body)> pass_;
  std::function<Instant()> now_;
  std::map<std::string, Instant>& shown_;
  std::map<std::string, Asked> asked_;  ///< of each early answer
  Memo<aws::Volume> volumes_{aws::decode_volumes};
  Memo<aws::Instance> instances_{aws::decode_instances};
  Memo<aws::InstanceStatus> statuses_{aws::decode_instance_status};
};

}  // namespace warmroot::fleet
