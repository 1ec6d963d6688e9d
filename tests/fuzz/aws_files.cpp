// What the manager reads to find credentials: profiles, programs' and services' JSON, command lines; and what the doctor
// reads of quotas and keys. Any text is either read or refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "manager/aws/account_facts.hpp"
#include "manager/aws/aws_ini.hpp"
#include "manager/aws/credentials_json.hpp"
#include "manager/aws/form.hpp"
#include "manager/aws/split_command.hpp"
#include "manager/aws/sts.hpp"

using namespace warmroot;

namespace {

void round_trip(std::string_view text) {
  const aws::Form form = aws::parse_form(text);
  CHECK(aws::parse_form(aws::encode_form(form)) == form);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr Instant kNow{std::chrono::hours{24 * 20'000}};
  switch (data[0] % 10) {
    case 0: (void)aws::parse_aws_ini(text); break;
    case 1: (void)aws::parse_process_credentials(text); break;
    case 2: (void)aws::parse_metadata_credentials(text); break;
    case 3: (void)aws::parse_sso_credentials(text); break;
    case 4: (void)aws::parse_sso_token(text); break;
    case 5: (void)aws::split_command(text); break;
    case 6: (void)aws::renewed_sso_token(text.substr(0, text.size() / 2), text.substr(text.size() / 2), kNow); break;
    case 7:
      (void)aws::decode_caller_identity({200, {}, std::string(text)});
      (void)aws::decode_assumed_role({text.size() % 2 == 0 ? 200 : 403, {}, std::string(text)});
      break;
    case 8: round_trip(text); break;
    default:
      (void)aws::decode_service_quota({text.size() % 2 == 0 ? 200 : 400, {}, std::string(text)});
      (void)aws::decode_key({text.size() % 2 == 0 ? 200 : 400, {}, std::string(text)});
      break;
  }
  return 0;
}
