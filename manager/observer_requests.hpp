// What the observer asks EC2 for, in words of the describing calls, and the few questions about ids
// that its parts share. Pure. Used by observer*.cpp alone.
#pragma once

#include <string>
#include <vector>

#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"

namespace warmroot::manager {

/// Beside three or four state names in one request of 200 values.
inline constexpr std::size_t kPoolsPerFilter = 100;
/// Reads that go out together: well below EC2's bucket of 50 and more, full at the start.
inline constexpr std::size_t kTogether = 16;

aws::DescribeRequest page_request(const aws::Filter& filter, const std::string& token, int size);
/// As filters, not as ids: one id that is gone fails a whole list of ids, a filter just leaves it
/// out.
aws::DescribeRequest id_request(bool volumes, const std::vector<std::string>& ids, int size);
aws::Filter tag_filter(const char* key, std::vector<std::string> values);
/// Instances of the deployment that end.
aws::DescribeRequest endings_request(const core::Desired& desired, int size);
/// The key keeps most of what is none of ours out of the answer.
aws::DescribeRequest strangers_request(const std::vector<std::string>& ids, int size);

/// Up to `most` from `first` on.
std::vector<std::string> slice(const std::vector<std::string>& list, std::size_t first,
                               std::size_t most);
bool is_volume(const std::string& id);
/// Somebody waits for the volume itself, not only for the word that it is attached.
bool wait_for_volume(const core::Observed& world, const std::string& id);
Milliseconds milliseconds_for(std::size_t things, double each);

}  // namespace warmroot::manager
