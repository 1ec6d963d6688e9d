// What a node reads from user-data, the kernel, the metadata service, the manager, and a volume that others have written: tickets,
// uevents, mountinfo, notices, answers, accounts, host keys, warm maps. Merging a
// hostile volume's accounts must never give the base another root, and reverting must give the base's files back.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/device.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/ebs_statistics.hpp"
#include "bootstrap/host_key_document.hpp"
#include "bootstrap/own_sshd_plan.hpp"
#include "bootstrap/process_stat.hpp"
#include "bootstrap/sshd_config.hpp"
#include "bootstrap/ticket.hpp"
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
    CHECK(line.find('\n') == std::string::npos);
  }
  for (const auto& line : edit.passwd_changed) {
    const auto before = bootstrap::parse_user(line.before), after = bootstrap::parse_user(line.after);
    CHECK(before && after && before->name == after->name && before->uid != 0 && after->uid >= 1000);
  }
  const bootstrap::AccountFiles back = bootstrap::revert_accounts(edit.files, edit);
  CHECK(back.passwd == kBase.passwd && back.group == kBase.group && back.shadow == kBase.shadow);
}

void read_kernel(std::string_view text) {
  (void)bootstrap::parse_uevent(text);
  (void)bootstrap::mounted_devices(std::string(text));
  (void)bootstrap::parse_process_stat(text);
  (void)bootstrap::parse_ebs_statistics(text);
}

/// The metadata service, the manager, sshd, and our own status file.
void read_services(std::string_view text) {
  (void)bootstrap::parse_instance_action(text);
  (void)bootstrap::parse_hello_answer(text);
  (void)bootstrap::parse_wishes(text);
  (void)bootstrap::parse_sshd_facts(text);
  (void)bootstrap::parse_own_sshd_facts(text);
  (void)bootstrap::status_fields(text);
  (void)bootstrap::status_text(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0: (void)bootstrap::parse_ticket(text); break;
    case 1: merge(text); break;
    case 2: read_kernel(text); break;
    case 3: read_services(text); break;
    default:
      (void)bootstrap::parse_host_key_document(text);
      (void)warm::decode_map(text, {"vol-0123456789abcdef0", std::uint64_t{64} << 20});
      break;
  }
  return 0;
}
