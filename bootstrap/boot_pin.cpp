#include "bootstrap/boot_pin.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "bootstrap/base/words.hpp"

namespace warmroot::bootstrap {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kRoot = "root=";

/// Between words of a boot loader's file: GRUB's variables have quotes around them.
bool ends_word(char letter) {
  return std::string_view(" \t\n\r\"'").find(letter) != std::string_view::npos;
}

/// Each with its end.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    lines.emplace_back(text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1));
    text.remove_prefix(lines.back().size());
  }
  return lines;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line;
  return text;
}

/// Empty for a comment and a line without words.
std::string first_word(std::string_view line) {
  const auto first = std::min(line.find_first_not_of(" \t"), line.size());
  const auto end =
      std::find_if(line.begin() + static_cast<std::ptrdiff_t>(first), line.end(), ends_word);
  std::string word(line.begin() + static_cast<std::ptrdiff_t>(first), end);
  return word.starts_with('#') ? std::string() : word;
}

/// Calls `found` with the place and the length of each NAME in `root=NAME`.
void each_root(std::string_view line,
               const std::function<void(std::size_t at, std::size_t size)>& found) {
  for (std::size_t at = line.find(kRoot); at != std::string_view::npos;
       at = line.find(kRoot, at + 1)) {
    if (at > 0 && !ends_word(line[at - 1])) continue;
    const auto first = line.begin() + static_cast<std::ptrdiff_t>(at + kRoot.size());
    found(at + kRoot.size(),
          static_cast<std::size_t>(std::find_if(first, line.end(), ends_word) - first));
  }
}

/// The last one is what the kernel heeds.
std::string root_of(std::string_view line) {
  std::string root;
  each_root(line, [&](std::size_t at, std::size_t size) { root = line.substr(at, size); });
  return root;
}

bool needs_initrd(const std::string& own) {
  return own.starts_with("/dev/disk/");
}

/// All that were `name`.
void rename_root(std::string& line, const std::string& name, const std::string& own) {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  each_root(line, [&](std::size_t at, std::size_t size) {
    if (line.compare(at, size, name) == 0) places.emplace_back(at, size);
  });
  for (auto place = places.rbegin(); place != places.rend(); ++place)
    line.replace(place->first, place->second, own);
}

}  // namespace

bool names_one_of(std::string_view name, std::span<const PartitionFacts> partitions) {
  constexpr std::pair<std::string_view, std::string PartitionFacts::*> kNames[] = {
      {"UUID=", &PartitionFacts::uuid},
      {"PARTUUID=", &PartitionFacts::part_uuid},
      {"LABEL=", &PartitionFacts::label},
      {"PARTLABEL=", &PartitionFacts::part_label},
      {"/dev/disk/by-uuid/", &PartitionFacts::uuid},
      {"/dev/disk/by-partuuid/", &PartitionFacts::part_uuid},
      {"/dev/disk/by-label/", &PartitionFacts::label},
      {"/dev/disk/by-partlabel/", &PartitionFacts::part_label}};
  for (const auto& [kind, member] : kNames)
    for (const PartitionFacts& partition : partitions) {
      if (!name.starts_with(kind) || (partition.*member).empty()) continue;
      const std::string told(name.substr(kind.size()));
      const bool is_number =
          member == &PartitionFacts::uuid || member == &PartitionFacts::part_uuid;
      if (told == partition.*member || (is_number && lower(told) == lower(partition.*member)))
        return true;
    }
  return false;
}

std::string boot_twin(std::string_view command_line, std::span<const PartitionFacts> partitions) {
  const std::string root = root_of(command_line);
  return names_one_of(root, partitions) ? root : std::string();
}

std::string lasting_name(const std::string& device, std::span<const DiskLink> links) {
  if (device.empty()) return {};
  // Others are made of content (dm-uuid, lvm-pv-uuid) or of what a kernel may tell differently.
  std::string best;
  for (const DiskLink& link : links) {
    const std::string_view name = link.name;
    const bool by_serial = (name.starts_with("nvme-") && !name.starts_with("nvme-eui.") &&
                            !name.starts_with("nvme-nvme.") && !name.starts_with("nvme-uuid.")) ||
                           name.starts_with("virtio-");
    if (link.target != device || !by_serial) continue;
    if (best.empty() || name.size() < best.size() || (name.size() == best.size() && name < best))
      best = name;
  }
  if (!best.empty()) return "/dev/disk/by-id/" + best;
  return device.starts_with("xvd") ? "/dev/" + device : std::string();
}

PinnedText pin_grub(std::string_view text, std::span<const PartitionFacts> volume,
                    const std::string& own) {
  auto lines = lines_of(text);
  PinnedText done;
  std::string* kernel = nullptr;  // a line whose initramfs has not been met yet
  const auto settle = [&](bool has_initrd) {
    if (!kernel) return;
    const std::string name = root_of(*kernel);
    const bool found = has_initrd || !needs_initrd(own);
    (own.empty() || !found ? done.open : done.pinned) = name;
    if (!own.empty() && found) rename_root(*kernel, name, own);
    kernel = nullptr;
  };
  for (auto& line : lines) {
    const std::string word = first_word(line);
    const bool is_kernel = word == "linux" || word == "linux16" || word == "linuxefi";
    if (word == "initrd" || word == "initrd16" || word == "initrdefi") settle(true);
    if (is_kernel || word == "else" || word == "elif" || word == "fi" || word == "}" ||
        word == "menuentry" || word == "submenu")
      settle(false);
    if (is_kernel && names_one_of(root_of(line), volume)) kernel = &line;
  }
  settle(false);
  done.text = text_of(lines);
  return done;
}

PinnedText pin_boot_entry(std::string_view text, std::span<const PartitionFacts> volume,
                          const std::string& own) {
  auto lines = lines_of(text);
  const bool has_initrd = std::any_of(
      lines.begin(), lines.end(), [](const auto& line) { return first_word(line) == "initrd"; });
  PinnedText done;
  for (auto& line : lines) {
    if (first_word(line) != "options") continue;
    const std::string name = root_of(line);
    if (line.find(kOptionsElsewhere) != std::string::npos) done.open = kOptionsElsewhere;
    if (!names_one_of(name, volume)) continue;
    const bool found = has_initrd || !needs_initrd(own);
    (own.empty() || !found ? done.open : done.pinned) = name;
    if (!own.empty() && found) rename_root(line, name, own);
  }
  done.text = text_of(lines);
  return done;
}

PinnedText pin_fstab(std::string_view text, const OwnName& own_name) {
  auto lines = lines_of(text);
  PinnedText done;
  for (auto& line : lines) {
    const std::string what = first_word(line);
    if (what.empty()) continue;
    const auto at = line.find(what);
    const std::string point = first_word(std::string_view(line).substr(at + what.size()));
    const std::string own = own_name(point, what);
    if (own.empty()) continue;
    line.replace(at, what.size(), own);
    done.pinned = what;
  }
  done.text = text_of(lines);
  return done;
}

bool strays(std::string_view efi_grub, std::span<const PartitionFacts> volume) {
  for (const auto& line : lines_of(efi_grub)) {
    if (!first_word(line).starts_with("search") ||
        line.find("--root-dev-only") != std::string::npos)
      continue;
    for (const auto& partition : volume)
      for (const auto& name : {partition.uuid, partition.label})
        if (!name.empty() && lower(line).find(lower(name)) != std::string::npos) return true;
  }
  return false;
}

std::string to_json(const BootRecord& record) {
  Json files = Json::object();
  for (const auto& [path, file] : record.files)
    files[path] = {{"before", file.before}, {"after", file.after}};
  const Json all = {
      {"disk", record.disk}, {"serial", record.serial}, {"name", record.name}, {"files", files}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<BootRecord> parse_boot_record(std::string_view text) {
  const Json all = Json::parse(text, nullptr, false);
  if (!all.is_object()) return std::nullopt;
  const auto text_in = [](const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  BootRecord record{text_in(all, "disk"), text_in(all, "serial"), text_in(all, "name"), {}};
  const auto files = all.find("files");
  if (files == all.end() || !files->is_object()) return std::nullopt;
  for (const auto& [path, file] : files->items())
    if (file.is_object()) record.files[path] = {text_in(file, "before"), text_in(file, "after")};
  return record;
}

}  // namespace warmroot::bootstrap
