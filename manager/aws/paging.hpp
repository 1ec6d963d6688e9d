// Listing to the end: follows page tokens of any Ec2, restarting once when EC2 has forgotten a
// token.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "manager/aws/ec2.hpp"
#include "manager/aws/ec2_codec.hpp"

namespace warmroot::aws {

/// A listing longer than this is a peer that repeats itself: 10,000 pages of 5 are 50,000 things.
inline constexpr int kMaxPages = 10'000;

/// All items of a listing: `collect_all(ec2, &Ec2::describe_volumes, request)`. A page may be empty
/// and still have a successor. An expired token restarts the listing, once. Errors: those of the
/// call; broken when it never ends.
template <typename T, typename Request>
Result<std::vector<T>> collect_all(Ec2& ec2, Result<Page<T>> (Ec2::*describe)(const Request&),
                                   Request request) {
  std::vector<T> items;
  const std::string first_token = request.next_token;
  bool restarted = false;
  for (int pages = 0; pages < kMaxPages; ++pages) {
    Result<Page<T>> page = (ec2.*describe)(request);
    if (!page) {
      const bool expired = reaction_for(page.error().code) == Reaction::restart;
      if (!expired || restarted || request.next_token == first_token)
        return fail(std::move(page).error());
      restarted = true;
      items.clear();
      request.next_token = first_token;
      continue;
    }
    std::move(page->items.begin(), page->items.end(), std::back_inserter(items));
    if (page->next_token.empty()) return items;
    request.next_token = std::move(page->next_token);
  }
  return fail(ErrorKind::broken,
              "a listing did not end after " + std::to_string(kMaxPages) + " pages");
}

/// Values of one filter. Source: EC2's FilterLimitExceeded.
inline constexpr std::size_t kMaxFilterValues = 200;

/// The items whose `filter` ("volume-id", "instance-id") has one of these values, in portions that
/// EC2 accepts. Unlike a list of ids, a filter does not fail for what is not there: that is merely
/// absent. No values: no items, no call.
template <typename T>
Result<std::vector<T>> collect_matching(Ec2& ec2,
                                        Result<Page<T>> (Ec2::*describe)(const DescribeRequest&),
                                        const std::string& filter,
                                        const std::vector<std::string>& values,
                                        DescribeRequest request = {}) {
  std::vector<T> items;
  request.filters.push_back({filter, {}});
  for (std::size_t start = 0; start < values.size(); start += kMaxFilterValues) {
    const std::size_t end = std::min(values.size(), start + kMaxFilterValues);
    request.filters.back().values.assign(values.begin() + static_cast<std::ptrdiff_t>(start),
                                         values.begin() + static_cast<std::ptrdiff_t>(end));
    TRY_ASSIGN(std::vector<T> part, collect_all(ec2, describe, request));
    std::move(part.begin(), part.end(), std::back_inserter(items));
  }
  return items;
}

/// Adds the items with these ids to `items`. One id that is not there fails a whole call: it is
/// looked for by halves, and left out. For calls that have no filter by id.
template <typename T>
Ok collect_present(Ec2& ec2, Result<Page<T>> (Ec2::*describe)(const DescribeRequest&),
                   std::span<const std::string> ids, std::vector<T>& items) {
  if (ids.empty()) return {};
  DescribeRequest request;
  request.ids.assign(ids.begin(), ids.end());
  Result<Page<T>> page = (ec2.*describe)(request);
  if (page) {
    std::move(page->items.begin(), page->items.end(), std::back_inserter(items));
    return {};
  }
  if (reaction_for(page.error().code) != Reaction::absent) return fail(std::move(page).error());
  if (ids.size() == 1) return {};
  TRY(collect_present(ec2, describe, ids.first(ids.size() / 2), items));
  return collect_present(ec2, describe, ids.subspan(ids.size() / 2), items);
}

}  // namespace warmroot::aws
