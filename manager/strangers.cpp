// See the header.
#include "manager/strangers.hpp"

#include <algorithm>
#include <string_view>

namespace warmroot::manager {

namespace {

/// "i-" and 8 or 17 hexadecimal digits. Source: EC2 user guide, resource ids.
bool is_instance_id(std::string_view id) {
  if (!id.starts_with("i-") || (id.size() != 10 && id.size() != 19)) return false;
  return id.find_first_not_of("0123456789abcdef", 2) == std::string_view::npos;
}

}  // namespace

void Strangers::hear_of(const std::string& id) {
  if (!is_instance_id(id) || waiting_.size() >= kStrangersWaiting) return;
  if (waits_.insert(id).second) waiting_.push_back(id);
}

std::vector<std::string> Strangers::to_ask(Instant now) {
  if (now < not_before_) return {};
  std::erase_if(waiting_, [&](const auto& id) {
    const auto asked = asked_.find(id);
    const bool early = asked != asked_.end() && now < asked->second.not_before;
    if (early) waits_.erase(id);
    return early;
  });
  const auto count = std::min(waiting_.size(), kStrangersAtOnce);
  return {waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count)};
}

void Strangers::answered(const std::vector<std::string>& ids, Instant now) {
  not_before_ = now + kStrangersEvery;
  for (const auto& id : ids) {
    forget(id);
    const auto [asked, is_new] = asked_.try_emplace(id);
    if (is_new) asked_order_.push_back(id);
    auto& pause = asked->second.pause;
    pause = is_new ? kStrangerAgain : std::min(pause * 2, kStrangerAgainMost);
    asked->second.not_before = now + pause;
  }
  for (; asked_order_.size() > kStrangersRemembered; asked_order_.pop_front())
    asked_.erase(asked_order_.front());
}

void Strangers::forget(const std::string& id) {
  if (waits_.erase(id) != 0) std::erase(waiting_, id);
}

void Strangers::forget_waiting() {
  waiting_.clear();
  waits_.clear();
}

}  // namespace warmroot::manager
