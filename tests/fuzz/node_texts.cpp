// What a node reads from user-data, the kernel, the metadata service, the manager, itself before it was killed, and a volume that
// others have written: tickets, uevents, mountinfo, notices, answers, held records, accounts, options, answers and configuration of
// the volume's sshd, host keys, warm maps, fstabs, partition tables that are to grow. Merging a hostile volume's accounts must
// never give the base another root, and reverting must give the base's files back; no option may choose where the volume's sshd
// listens. The first byte chooses what reads the rest; with WARMROOT_FUZZ_CASE it is that one alone.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/account_remarks.hpp"
#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/device.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/ebs_statistics.hpp"
#include "bootstrap/fstab_plan.hpp"
#include "bootstrap/held_volume.hpp"
#include "bootstrap/host_key_document.hpp"
#include "bootstrap/launch_facts.hpp"
#include "bootstrap/mount_table.hpp"
#include "bootstrap/own_sshd_files.hpp"
#include "bootstrap/own_sshd_plan.hpp"
#include "bootstrap/partition_grow.hpp"
#include "bootstrap/preflight.hpp"
#include "bootstrap/process_stat.hpp"
#include "bootstrap/sshd_config.hpp"
#include "bootstrap/ticket.hpp"
#include "bootstrap/unmount_order.hpp"
#include "bootstrap/warm/little_endian.hpp"
#include "bootstrap/warm/warm_map.hpp"

using namespace warmroot;

namespace {

const bootstrap::AccountFiles kBase = {"root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\n",
                                       "root:x:0:\nadmin:x:1000:\n", "root:*:1::::::\nadmin:*:1::::::\n"};

void merge(std::string_view text) {
  const std::size_t third = text.size() / 3;
  const bootstrap::AccountFiles volume = {std::string(text.substr(0, third)), std::string(text.substr(third, third)),
                                          std::string(text.substr(2 * third))};
  const bootstrap::AccountEdit edit = bootstrap::merge_accounts(kBase, volume);
  for (const std::string& line : edit.passwd_added) {
    const auto user = bootstrap::parse_user(line);
    CHECK(user && user->uid >= 1000);
    // A second name of the base's admin has no password there.
    CHECK(user->uid != 1000 || edit.files.shadow.find("\n" + user->name + ":!*:") != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
  }
  for (const std::string& line : edit.group_added) {
    const auto group = bootstrap::parse_group(line);
    CHECK(!group || (group->gid != 0 && group->gid != 1000 && group->name != "sudo" && group->name != "docker"));
  }
  for (const auto& line : edit.passwd_changed) {
    const auto before = bootstrap::parse_user(line.before), after = bootstrap::parse_user(line.after);
    CHECK(before && after && before->name == after->name && before->uid != 0 && after->uid >= 1000);
  }
  for (const std::string& remark : {bootstrap::remark_on_left_out(edit.left_out), bootstrap::remark_on_groups(edit.without_groups)})
    CHECK(remark.size() < 500 && remark.find_first_of("\n\033") == std::string::npos);
  const bootstrap::AccountFiles back = bootstrap::revert_accounts(edit.files, edit);
  CHECK(back.passwd == kBase.passwd && back.group == kBase.group && back.shadow == kBase.shadow);
}

void read_kernel(std::string_view text) {
  (void)bootstrap::parse_uevent(text);
  const auto mounts = bootstrap::parse_mount_table(std::string(text));
  (void)bootstrap::mounts_of_volume(mounts, {{"259:1"}, "/v", "0:5"});
  CHECK(bootstrap::unmount_order(mounts, "", {"259:1"}).size() <= mounts.size());
  (void)bootstrap::parse_process_stat(text);
  (void)bootstrap::parse_ebs_statistics(text);
}

/// The metadata service, the manager, sshd, and our own status file.
void read_services(std::string_view text) {
  bootstrap::LaunchFacts facts;
  for (const auto& entry : bootstrap::mapping_entries(text)) bootstrap::add_device(facts, entry);
  CHECK(facts.device_names.size() <= bootstrap::kMostDevices);
  (void)bootstrap::set_identity(facts, text.substr(0, text.size() / 3), text.substr(text.size() / 2), text);
  CHECK((facts.instance_id + facts.public_key).find_first_of("\n\r\033") == std::string::npos);
  (void)bootstrap::slot_limit(bootstrap::instance_type_of(text));
  (void)bootstrap::parse_instance_action(text);
  (void)bootstrap::parse_rebalance(text);
  (void)bootstrap::parse_hello_answer(text);
  (void)bootstrap::parse_wishes(text);
  const std::string refusal = bootstrap::refusal_reason(text);
  CHECK(refusal.size() < 400 && refusal.find_first_of("\n\033") == std::string::npos);
  (void)bootstrap::parse_sshd_facts(text);
  (void)bootstrap::parse_own_sshd_facts(text);
  (void)bootstrap::status_fields(text);
  (void)bootstrap::status_text(text);
  (void)bootstrap::warm_line(text, 80);
}

/// No line leads out of the root, and none brings an option that this build does not know.
void fstab(std::string_view text) {
  bootstrap::PartitionFacts root{1, 1 << 20, 1 << 30, "btrfs", {}}, home{2, 2 << 20, 1 << 30, "ext4", {}};
  root.uuid = "a";
  home.uuid = "b";
  const bootstrap::FstabPlan plan = bootstrap::plan_fstab(text, std::array{root, home}, root);
  for (const auto& mount : plan.mounts) {
    CHECK(!mount.target.empty() && mount.target.front() != '/');
    CHECK(("/" + mount.target + "/").find("/../") == std::string::npos);
    CHECK(mount.options.find("nodev") != std::string::npos);
    CHECK(mount.options.find_first_of(" \"\\\n") == std::string::npos);
  }
  for (const auto& left : plan.left) CHECK(left.text.find_first_of("\n\033") == std::string::npos);
}

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = UINT32_MAX;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return ~crc;
}

/// The input as a master boot record, and as the entries of a GPT whose sums are right: no write reaches into the
/// partition or beyond the disk.
void grow(std::string_view text) {
  constexpr std::uint64_t kDisk = std::uint64_t{64} << 20, kFirst = 1 << 20;
  constexpr std::size_t kHeader = 512, kEntries = 1024, kEntryBytes = 128 * 128;
  bootstrap::PartitionFacts root{1, kFirst, 1 << 20, "ext4", {}};
  for (const bool gpt : {false, true}) {
    root.table = gpt ? "gpt" : "dos";
    std::string start(text.substr(0, gpt ? kEntryBytes : 512));
    if (gpt) {
      start.resize(kEntryBytes);
      const std::uint32_t sum = crc32(start);
      start.insert(0, std::string(kEntries, '\0'));
      start.replace(kHeader, 8, "EFI PART");
      const auto put = [&](std::size_t at, std::uint64_t value) { warm::put_little(start, kHeader + at, value, 4); };
      put(12, 92);
      put(24, 1);
      put(72, 2);
      put(80, 128);
      put(84, 128);
      put(88, sum);
      put(16, crc32(std::string_view(start).substr(kHeader, 92)));
    }
    start.resize(bootstrap::kGrowthLooksAtBytes);
    const auto planned = bootstrap::plan_growth(start, kDisk, root);
    if (!planned || !*planned) continue;
    CHECK((*planned)->size_bytes <= kDisk - kFirst);
    for (const auto& write : (*planned)->writes) {
      const std::uint64_t end = write.offset + write.bytes.size();
      CHECK(end <= kFirst || (write.offset >= kFirst + (*planned)->size_bytes && end <= kDisk));
    }
  }
}

/// What was read is written and read as the same.
void held(std::string_view text) {
  const auto record = bootstrap::parse_held_document(text);
  if (!record) {
    CHECK(!record.error().message().empty());
    return;
  }
  CHECK(record->volume.partition.number >= 0);
  const std::string written = bootstrap::held_document(*record);
  const auto again = bootstrap::parse_held_document(written);
  CHECK(again && bootstrap::held_document(*again) == written);
}

/// A setting, a file or a number, each one plain word; nothing of where sshd listens and what it proves itself by.
void check_own_options(const std::string& command, const std::vector<std::string>& environments) {
  const bootstrap::UnitOptions found = bootstrap::own_unit_options(command, environments);
  CHECK(found.options.size() % 2 == 0);
  for (std::size_t i = 0; i < found.options.size(); i += 2) {
    const std::string &option = found.options[i], &value = found.options[i + 1];
    CHECK(option == "-o" || option == "-f" || option == "-u" || option == "-g");
    CHECK(value.find_first_of("\\$\n\033") == std::string::npos);
    CHECK(option != "-f" || value.front() == '/');
    const std::string keyword = lower(value.substr(0, value.find_first_of("= \t\"")));
    for (const char* ours : {"", "port", "listenaddress", "addressfamily", "hostkey", "hostcertificate", "hostkeyagent", "match"})
      CHECK(option != "-o" || keyword != ours);
  }
  const std::string remark = bootstrap::remark_on_options(found);
  CHECK(remark.empty() == found.left_out.empty());
  CHECK(remark.size() < 300 && remark.find_first_of("\n\033") == std::string::npos);
}

/// What the volume's sshd and PAM read beside: paths of its root, not more than are refused for being too many.
void check_named_files(std::string_view text, std::string_view name) {
  const bootstrap::NamedFiles named = bootstrap::files_of_sshd_config(text);
  const auto by_pam = bootstrap::files_of_pam(text);
  for (const auto* paths : {&named.included, &named.read, &by_pam}) {
    CHECK(paths->size() <= bootstrap::kMostNamedFiles + 1);
    for (const std::string& path : *paths) CHECK(path.starts_with('/'));
  }
  CHECK(bootstrap::glob_may_match("*", name) || name.starts_with('.'));
  (void)bootstrap::glob_may_match(text, name);
}

/// The volume's unit, its variables, and what its sshd and a client of it say; of a second sshd of the base the same.
void own_sshd(std::string_view text) {
  const std::string first(text.substr(0, text.size() / 2)), second(text.substr(text.size() / 2));
  check_own_options(bootstrap::kUnitCommand, {first, second});
  check_own_options(first, {second});
  check_named_files(text, first);
  (void)bootstrap::sshd_options_of_unit(first, {second});
  const bootstrap::OwnSshdFacts facts = bootstrap::parse_own_sshd_facts(text);
  for (const bool node_host_keys : {false, true})
    if (const auto fit = bootstrap::check_own_sshd_facts(facts, {22}, node_host_keys); !fit)
      CHECK(fit.error().message().find_first_of("\n\033") == std::string::npos);
  CHECK(bootstrap::remark_on_addresses(facts).find_first_of("\n\033") == std::string::npos);
  (void)bootstrap::check_second_sshd_facts(facts, 4711);
  (void)bootstrap::parse_trial_facts(text);
  for (const std::optional<int> status : {std::optional<int>(), {0}, {254}, {255}})
    CHECK(bootstrap::judge_trial(status, text).reason.find_first_of("\n\033") == std::string::npos);
  for (const auto& person : bootstrap::people_of(text))
    CHECK(person.name.find_first_of("/\n") == std::string::npos && person.name != "..");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
#ifdef WARMROOT_FUZZ_CASE
  constexpr int chosen = WARMROOT_FUZZ_CASE;
#else
  const int chosen = data[0] % 9;
#endif
  switch (chosen) {
    case 0: (void)bootstrap::parse_ticket(text); break;
    case 1: merge(text); break;
    case 2: read_kernel(text); break;
    case 3: read_services(text); break;
    case 4: fstab(text); break;
    case 5: grow(text); break;
    case 6: held(text); break;
    case 7: own_sshd(text); break;
    default:
      (void)bootstrap::parse_host_key_document(text);
      (void)warm::decode_map(text, {"vol-0123456789abcdef0", std::uint64_t{64} << 20});
      break;
  }
  return 0;
}
