#include "bootstrap/held_volume.hpp"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace warmroot::bootstrap {
namespace {

using Json = nlohmann::json;

/// Of a release, by boottime_ms(): no machine runs for thirty years, and what is computed with it
/// has room above.
constexpr std::uint64_t kMostDeadlineMs = 1'000'000'000'000;

tl::unexpected<Error> unreadable() {
  return fail(ErrorKind::broken, "the record of the volume that is mounted cannot be read");
}

/// A whole number from 0 on. The library itself casts any number to any type, a float that the type
/// cannot hold, too, which may do anything. Errors: broken, where it is none or above `most`.
template <typename Number>
Ok take_number(const Json& value, Number& number,
               std::uint64_t most = std::numeric_limits<Number>::max()) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) return unreadable();
  number = static_cast<Number>(value.get<std::uint64_t>());
  return {};
}

Json partition_json(const PartitionFacts& partition) {
  return {{"number", partition.number},
          {"offset_bytes", partition.offset_bytes},
          {"size_bytes", partition.size_bytes},
          {"content", partition.content},
          {"node", partition.node},
          {"uuid", partition.uuid}};
}

Result<PartitionFacts> partition_of(const Json& document) {
  PartitionFacts partition;
  TRY(take_number(document.at("number"), partition.number));
  TRY(take_number(document.at("offset_bytes"), partition.offset_bytes));
  TRY(take_number(document.at("size_bytes"), partition.size_bytes));
  document.at("content").get_to(partition.content);
  document.at("node").get_to(partition.node);
  document.at("uuid").get_to(partition.uuid);
  return partition;
}

Result<std::vector<dev_t>> devices_of(const Json& document) {
  if (!document.is_array()) return unreadable();
  std::vector<dev_t> devices(document.size());
  for (std::size_t i = 0; i < devices.size(); ++i) TRY(take_number(document[i], devices[i]));
  return devices;
}

Result<HeldVolume> volume_of(const Json& document) {
  HeldVolume volume;
  document.at("disk_node").get_to(volume.disk_node);
  document.at("disk").get_to(volume.disk.name);
  document.at("disk_number").get_to(volume.disk.number);
  document.at("disk_sequence").get_to(volume.disk.sequence);
  document.at("partition_node").get_to(volume.partition_node);
  TRY_ASSIGN(volume.partition, partition_of(document.at("partition")));
  document.at("also_mounted").get_to(volume.also_mounted);
  TRY_ASSIGN(volume.other_devices, devices_of(document.at("other_devices")));
  document.at("volume_id").get_to(volume.volume_id);
  document.at("instance_id").get_to(volume.instance_id);
  document.at("launch_key").get_to(volume.launch_key);
  volume.served_by = entry_kind_from(document.at("served_by").get<std::string>());
  volume.untried = document.at("untried").get<bool>();
  TRY(take_number(document.at("root_device"), volume.root_device));
  document.at("volume_os").get_to(volume.volume_os);
  document.at("root_choice").get_to(volume.root_choice);
  for (const Json& remark : document.at("fstab"))
    volume.fstab.push_back(
        {remark.at("text").get<std::string>(), remark.at("for_people").get<bool>()});
  return volume;
}

}  // namespace

std::string held_document(const HeldRecord& record) {
  const HeldVolume& volume = record.volume;
  Json document = {{"disk_node", volume.disk_node},
                   {"disk", volume.disk.name},
                   {"disk_number", volume.disk.number},
                   {"disk_sequence", volume.disk.sequence},
                   {"partition_node", volume.partition_node},
                   {"partition", partition_json(volume.partition)},
                   {"also_mounted", volume.also_mounted},
                   {"other_devices", volume.other_devices},
                   {"volume_id", volume.volume_id},
                   {"instance_id", volume.instance_id},
                   {"launch_key", volume.launch_key},
                   {"served_by", volume.served_by ? to_string(*volume.served_by) : ""},
                   {"untried", volume.untried},
                   {"root_device", volume.root_device},
                   {"volume_os", volume.volume_os},
                   {"root_choice", volume.root_choice},
                   {"fstab", Json::array()}};
  for (const Remark& remark : volume.fstab)
    document["fstab"].push_back({{"text", remark.text}, {"for_people", remark.for_people}});
  if (record.leaving)
    document["leaving"] = {{"word", record.leaving->word},
                           {"sentence", record.leaving->sentence},
                           {"deadline_ms", record.leaving->deadline_ms}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<HeldRecord> parse_held_document(std::string_view text) {
  try {
    const Json document = Json::parse(text);
    HeldRecord record;
    TRY_ASSIGN(record.volume, volume_of(document));
    if (const auto leaving = document.find("leaving"); leaving != document.end()) {
      StopReason reason{leaving->at("word").get<std::string>(),
                        leaving->at("sentence").get<std::string>()};
      TRY(take_number(leaving->at("deadline_ms"), reason.deadline_ms, kMostDeadlineMs));
      record.leaving = std::move(reason);
    }
    return record;
  } catch (const Json::exception&) {
    return unreadable();
  }
}

}  // namespace warmroot::bootstrap
