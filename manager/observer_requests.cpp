// See the header.
#include "manager/observer_requests.hpp"

#include <algorithm>
#include <utility>

namespace warmroot::manager {

aws::DescribeRequest page_request(const aws::Filter& filter, const std::string& token, int size) {
  aws::DescribeRequest request;
  request.filters = {filter};
  request.max_results = size;
  request.next_token = token;
  return request;
}

aws::DescribeRequest id_request(bool volumes, const std::vector<std::string>& ids, int size) {
  return page_request({volumes ? "volume-id" : "instance-id", ids}, "", size);
}

aws::Filter tag_filter(const char* key, std::vector<std::string> values) {
  return {std::string("tag:") + key, std::move(values)};
}

aws::DescribeRequest endings_request(const core::Desired& desired, int size) {
  auto request = page_request(tag_filter(core::kTagDeployment, {desired.deployment}), "", size);
  request.filters.push_back({"instance-state-name", {"shutting-down", "stopping", "stopped"}});
  return request;
}

aws::DescribeRequest strangers_request(const std::vector<std::string>& ids, int size) {
  auto request = id_request(false, ids, size);
  request.filters.push_back({"tag-key", {core::kTagPool}});
  return request;
}

std::vector<std::string> slice(const std::vector<std::string>& list, std::size_t first,
                               std::size_t most) {
  const auto last = std::min(list.size(), first + most);
  return {list.begin() + static_cast<std::ptrdiff_t>(first),
          list.begin() + static_cast<std::ptrdiff_t>(last)};
}

bool is_volume(const std::string& id) {
  return !id.starts_with("i-");
}

bool wait_for_volume(const core::Observed& world, const std::string& id) {
  const auto found = world.volumes.find(id);
  if (found == world.volumes.end()) return true;
  if (found->second.state == aws::VolumeState::creating) return true;
  for (const auto& attachment : found->second.attachments)
    if (attachment.state != aws::AttachmentState::attaching) return true;
  return false;
}

Milliseconds milliseconds_for(std::size_t things, double each) {
  return Milliseconds{static_cast<Milliseconds::rep>(static_cast<double>(things) * each)};
}

}  // namespace warmroot::manager
