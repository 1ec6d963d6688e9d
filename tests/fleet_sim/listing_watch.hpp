// An Ec2 that tells of listings which could not be read. It stands beneath whatever may hide that
// from the reconciler, so that the world can judge calls that were planned on them all the same.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "manager/aws/ec2_codec.hpp"
#include "tests/fleet_sim/forwarding_ec2.hpp"

namespace warmroot::fleet {

class ListingWatch : public ForwardingEc2 {
 public:
  using Unread = std::function<void(const Error&)>;
  /// `unread` is told why, after all attempts of the client.
  ListingWatch(std::unique_ptr<aws::Ec2> inner, Unread unread)
      : ForwardingEc2(std::move(inner)), unread_(std::move(unread)) {}

  Result<aws::Page<aws::Volume>> describe_volumes(const aws::DescribeRequest& request) override {
    return watched(request, inner_.describe_volumes(request));
  }
  Result<aws::Page<aws::Instance>> describe_instances(
      const aws::DescribeRequest& request) override {
    return watched(request, inner_.describe_instances(request));
  }

 private:
  template <typename T>
  Result<aws::Page<T>> watched(const aws::DescribeRequest& request, Result<aws::Page<T>> page) {
    if (!page && !goes_on_without(request, page.error())) unread_(page.error());
    return page;
  }
  /// A listing whose token EC2 does not take any more is begun anew in the same look. Strangers
  /// that somebody has named are asked about beside the listings: no view depends on the answer.
  static bool goes_on_without(const aws::DescribeRequest& request, const Error& error) {
    const auto reaction = aws::reaction_for(error.code);
    const bool refuses_token =
        reaction == aws::Reaction::restart || reaction == aws::Reaction::request;
    const bool of_strangers =
        std::any_of(request.filters.begin(), request.filters.end(),
                    [](const aws::Filter& filter) { return filter.name == "tag-key"; });
    return of_strangers || (refuses_token && !request.next_token.empty());
  }

  const Unread unread_;
};

}  // namespace warmroot::fleet
