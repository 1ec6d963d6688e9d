// Remembers what the two large listings answered while the region has not changed since, because
// writing and reading the same XML again is four fifths of a run's time. Only while nothing stands
// between the manager and the truth: no fault waits, no server is behind, nothing is too young to
// be shown.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "bootstrap/base/units.hpp"
#include "manager/aws/ec2_codec.hpp"
#include "tests/fleet_sim/forwarding_ec2.hpp"

namespace warmroot::fleet {

class MemoEc2 : public ForwardingEc2 {
 public:
  /// `version` says which world a listing would show now, 0 when that cannot be told; `pass` lets
  /// the time of a call pass, and may throw Crash; `shown` is told when each thing was seen last.
  MemoEc2(aws::Ec2& inner, std::function<std::uint64_t()> version, std::function<void()> pass,
          std::function<Instant()> now, std::map<std::string, Instant>& shown)
      : ForwardingEc2(inner),
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

 private:
  template <typename T>
  struct Memo {
    std::uint64_t version = 0;
    std::map<std::string, aws::Page<T>> pages;
  };

  template <typename T>
  Result<aws::Page<T>> remembered(
      Memo<T>& memo, aws::Describe what, const aws::DescribeRequest& request,
      Result<aws::Page<T>> (aws::Ec2::*ask)(const aws::DescribeRequest&)) {
    const Instant asked = now_();
    auto page = look(memo, what, request, ask);
    if (page)
      for (const auto& item : page->items) shown_.insert_or_assign(id_of(item), asked);
    return page;
  }
  static const std::string& id_of(const aws::Volume& volume) { return volume.volume_id; }
  static const std::string& id_of(const aws::Instance& instance) { return instance.instance_id; }

  template <typename T>
  Result<aws::Page<T>> look(Memo<T>& memo, aws::Describe what, const aws::DescribeRequest& request,
                            Result<aws::Page<T>> (aws::Ec2::*ask)(const aws::DescribeRequest&)) {
    const auto version = version_();
    if (version == 0 || version != memo.version) memo.pages.clear();
    memo.version = version;
    if (version == 0) return (inner_.*ask)(request);
    const auto key = aws::encode(what, request);
    if (const auto found = memo.pages.find(key); found != memo.pages.end()) {
      const auto page = found->second;
      pass_();
      return page;
    }
    auto page = (inner_.*ask)(request);
    // Time has passed in the call: what it shows may be newer than the version asked for.
    if (page && version_() == version) memo.pages[key] = *page;
    return page;
  }

  std::function<std::uint64_t()> version_;
  std::function<void()> pass_;
  std::function<Instant()> now_;
  std::map<std::string, Instant>& shown_;
  Memo<aws::Volume> volumes_;
  Memo<aws::Instance> instances_;
};

}  // namespace warmroot::fleet
