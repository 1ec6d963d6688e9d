// The AWS CLI's two files, as the manager looks in them for profile, Region, endpoints, certificates
// and credentials, by the real entries with nobody on the network. Any text gives an answer or an
// Error; roles that name each other in a ring come to an end, and no error shows a secret.
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

template <typename T>
void check_words(const Result<T>& result) {
  if (result) return;
  CHECK(!result.error().message().empty());
  CHECK(result.error().message().find(kSecret) == std::string::npos);
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
  const auto from = fake.get();
  const auto profile = aws::load_profile(choices, from);
  check_words(profile);
  check_words(aws::resolve_region(choices, from));
  check_words(aws::resolve_endpoint(choices, "us-east-1", from));
  check_words(aws::resolve_service(aws::Service::sts, choices, "us-east-1", from));
  check_words(aws::resolve_ca_file(choices, from));
  if (profile) check_words(aws::resolve_credentials(choices, from));
  return 0;
}
