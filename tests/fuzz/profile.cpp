// The AWS CLI's two files, as the manager looks in them for profile, Region, endpoints, certificates
// and credentials, by the real entries with nobody on the network. Any text gives an answer or an
// Error; roles that name each other in a ring come to an end, and no error shows a secret that stands
// where secrets stand (mutations also put it into a role's name, which errors do show).
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "manager/aws/aws_settings.hpp"
#include "tests/fake_surroundings.hpp"

using namespace warmroot;

namespace {

/// What seeds use as a secret.
constexpr const char* kSecret = "wJalrXUtnFEMI";

/// Whether every occurrence of kSecret in `file` is on a line that sets aws_secret_access_key.
bool is_kept_secret(std::string_view file) {
  constexpr std::string_view setting = "aws_secret_access_key";
  for (std::size_t at = file.find(kSecret); at != std::string_view::npos; at = file.find(kSecret, at + 1)) {
    const std::size_t line = at == 0 ? 0 : file.rfind('\n', at - 1) + 1;
    const std::string_view before = file.substr(line, at - line);
    if (before.substr(0, setting.size()) != setting || before.find_first_of(" =", setting.size()) != setting.size()) return false;
  }
  return true;
}

template <typename T>
void check_words(const Result<T>& result, bool kept_secret) {
  if (result) return;
  CHECK(!result.error().message().empty());
  CHECK(!kept_secret || result.error().message().find(kSecret) == std::string::npos);
}

}  // namespace

/// The first byte chooses who is asked for; behind it the credentials file, a zero, the config file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t end = std::min(text.find('\0'), text.size());
  aws::FakeSurroundings fake;
  fake.files[aws::kCredentials] = text.substr(0, end);
  fake.files[aws::kConfig] = text.substr(std::min(end + 1, text.size()));
  if ((data[0] & 1) != 0) fake.variables["AWS_PROFILE"] = "p";
  if ((data[0] & 2) != 0) fake.variables["AWS_REGION"] = "us-east-1";
  if ((data[0] & 4) != 0)
    fake.program = [](const auto&, const auto&) -> Result<Secret> {
      return Secret(R"({"Version":1,"AccessKeyId":"AK","SecretAccessKey":"S"})");
    };
  const aws::AwsChoices choices{(data[0] & 8) != 0 ? "q" : "", "", ""};
  const bool kept = is_kept_secret(fake.files[aws::kCredentials]) && is_kept_secret(fake.files[aws::kConfig]);
  const auto from = fake.get();
  const auto profile = aws::load_profile(choices, from);
  check_words(profile, kept);
  check_words(aws::resolve_region(choices, from), kept);
  check_words(aws::resolve_endpoint(choices, "us-east-1", from), kept);
  check_words(aws::resolve_service(aws::Service::sts, choices, "us-east-1", from), kept);
  check_words(aws::resolve_ca_file(choices, from), kept);
  if (profile) check_words(aws::resolve_credentials(choices, from), kept);
  return 0;
}
