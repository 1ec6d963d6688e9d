#include "bootstrap/launch_facts.hpp"

#include <algorithm>

#include "bootstrap/base/control_bytes.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMostName = 64;
constexpr std::size_t kMostKey = 16 * 1024;  // as sshd reads them

bool is_made_of(std::string_view text, std::string_view more) {
  return !text.empty() && text.size() <= kMostName && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           more.find(c) != std::string_view::npos;
  });
}

}  // namespace

std::vector<std::string> mapping_entries(std::string_view listing) {
  std::vector<std::string> entries;
  for (std::size_t at = 0; at < listing.size() && entries.size() < kMostDevices;) {
    const std::size_t end = std::min(listing.find('\n', at), listing.size());
    if (const auto entry = listing.substr(at, end - at); is_made_of(entry, "-_"))
      entries.emplace_back(entry);
    at = end + 1;
  }
  return entries;
}

void add_device(LaunchFacts& facts, std::string_view device) {
  if (device.starts_with("/dev/")) device.remove_prefix(5);
  if (is_made_of(device, "-_/")) facts.device_names.emplace_back(device);
}

std::string instance_type_of(std::string_view text) {
  return is_made_of(text, "-.") ? std::string(text) : std::string();
}

Ok set_identity(LaunchFacts& facts, std::string_view instance_id, std::string_view zone,
                std::string_view public_key) {
  if (instance_id.empty()) return fail(ErrorKind::gone, "the metadata service has no instance-id");
  if (!is_made_of(instance_id, "-"))
    return fail(ErrorKind::refused, "the metadata service's instance-id is none");
  if (!zone.empty() && !is_made_of(zone, "-"))
    return fail(ErrorKind::refused, "the metadata service's availability zone is none");
  facts.instance_id = instance_id;
  facts.zone = zone;
  const std::string key(public_key.substr(0, public_key.find('\n')));
  if (key.size() <= kMostKey && key == without_controls(key)) facts.public_key = key;
  return {};
}

}  // namespace warmroot::bootstrap
