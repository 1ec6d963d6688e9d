#include "bootstrap/boot_pin.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "bootstrap/base/words.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::string_view kRoot = "root=";

/// Between words of a boot loader's file: GRUB's variables have quotes around them.
bool ends_word(char letter) {
  return std::string_view(" \t\n\r\"'").find(letter) != std::string_view::npos;
}

bool is_comment(std::string_view line) {
  const auto first = line.find_first_not_of(" \t");
  return first == std::string_view::npos || line[first] == '#';
}

/// Each line with its end, changed by `change`.
std::string by_line(std::string_view text,
                    const std::function<std::string(std::string_view)>& change) {
  std::string changed;
  while (!text.empty()) {
    const auto line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(line.size());
    changed += is_comment(line) ? std::string(line) : change(line);
  }
  return changed;
}

/// Each `root=NAME` of the line becomes what `replaced` makes of NAME.
std::string with_roots(std::string_view line,
                       const std::function<std::string(std::string_view)>& replaced) {
  std::string changed;
  while (!line.empty()) {
    const auto at = line.find(kRoot);
    if (at == std::string_view::npos) break;
    const bool is_word = at == 0 || ends_word(line[at - 1]);
    changed += line.substr(0, at + kRoot.size());
    line.remove_prefix(at + kRoot.size());
    if (!is_word) continue;
    const auto end = std::find_if(line.begin(), line.end(), ends_word);
    const auto name = line.substr(0, static_cast<std::size_t>(end - line.begin()));
    changed += replaced(name);
    line.remove_prefix(name.size());
  }
  return changed.append(line);
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
  const auto roots = roots_in_loader(command_line);  // the last one counts
  return !roots.empty() && names_one_of(roots.back(), partitions) ? roots.back() : std::string();
}

std::string lasting_name(const std::string& device, std::span<const DiskLink> links) {
  // Others are made of content (dm-uuid, lvm-pv-uuid) or of what a kernel may tell differently.
  std::string best;
  for (const DiskLink& link : links) {
    const std::string_view name = link.name;
    const bool by_serial = (name.starts_with("nvme-") && !name.starts_with("nvme-eui.") &&
                            !name.starts_with("nvme-nvme.") && !name.starts_with("nvme-uuid.")) ||
                           name.starts_with("virtio-");
    if (link.target != device || !by_serial) continue;
    if (best.empty() ||
        std::pair(name.size(), name) < std::pair(best.size(), std::string_view(best)))
      best = name;
  }
  if (!best.empty()) return "/dev/disk/by-id/" + best;
  return device.starts_with("xvd") ? "/dev/" + device : std::string();
}

std::vector<std::string> roots_in_loader(std::string_view text) {
  std::vector<std::string> roots;
  by_line(text, [&](std::string_view line) {
    return with_roots(line, [&](std::string_view name) {
      if (const auto before = std::find(roots.begin(), roots.end(), name); before != roots.end())
        roots.erase(before);
      roots.emplace_back(name);
      return std::string(name);
    });
  });
  return roots;
}

bool loader_has_initrd(std::string_view text) {
  bool has = false;
  by_line(text, [&](std::string_view line) {
    const auto first = line.find_first_not_of(" \t");
    has = has || line.substr(first).starts_with("initrd");
    return std::string();
  });
  return has;
}

std::string renamed_in_loader(std::string_view text, const Renaming& renaming) {
  return by_line(text, [&](std::string_view line) {
    return with_roots(line, [&](std::string_view name) {
      return name == renaming.from ? renaming.to : std::string(name);
    });
  });
}

std::string renamed_in_fstab(std::string_view text, const Renaming& renaming) {
  return by_line(text, [&](std::string_view line) {
    const auto first = line.find_first_not_of(" \t");
    const auto end = std::min(line.find_first_of(" \t\n", first), line.size());
    if (line.substr(first, end - first) != renaming.from) return std::string(line);
    return std::string(line.substr(0, first)).append(renaming.to).append(line.substr(end));
  });
}

std::string to_record(const BootNames& names) {
  std::string text;
  for (const auto& [file, renamings] : names)
    for (const auto& [from, to] : renamings) text += file + "\t" + from + "\t" + to + "\n";
  return text;
}

BootNames parse_boot_record(std::string_view text) {
  BootNames names;
  by_line(text, [&](std::string_view line) {
    const auto first = line.find('\t');
    const auto second = line.find('\t', first + 1);
    if (first == 0 || second == std::string_view::npos || !line.ends_with('\n'))
      return std::string();
    names[std::string(line.substr(0, first))].push_back(
        {std::string(line.substr(first + 1, second - first - 1)),
         std::string(line.substr(second + 1, line.size() - second - 2))});
    return std::string();
  });
  return names;
}

void set_renaming(BootNames& names, const std::string& file, const Renaming& renaming) {
  auto& renamings = names[file];
  const auto known = std::find_if(renamings.begin(), renamings.end(),
                                  [&](const Renaming& each) { return each.from == renaming.from; });
  if (known == renamings.end())
    renamings.push_back(renaming);
  else
    known->to = renaming.to;
}

}  // namespace warmroot::bootstrap
