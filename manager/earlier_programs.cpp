#include "manager/earlier_programs.hpp"

#include <filesystem>
#include <string_view>

#include "manager/aws/sigv4.hpp"
#include "manager/config.hpp"
#include "manager/state_files.hpp"

namespace warmroot::manager {
namespace {

constexpr const char* kSuffix = ".program";
/// Of upgrades that come faster than instances boot.
constexpr std::size_t kMostPrograms = 4;

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string EarlierPrograms::path_of(const std::string& sha256) const {
  return directory_ + "/" + sha256 + kSuffix;
}

Ok EarlierPrograms::keep(const BootstrapProgram& program) {
  // Written anew each time: the age of the file is that of its last use.
  TRY(replace_file(path_of(program.sha256), program.bytes));
  forget_oldest(directory_, kSuffix, kMostPrograms);
  return {};
}

std::optional<std::string> EarlierPrograms::of(const std::string& sha256) const {
  if (!is_digest(sha256)) return std::nullopt;
  auto bytes = read_text_file(path_of(sha256), kMaxProgramBytes);
  if (!bytes || aws::sha256_hex(*bytes) != sha256) return std::nullopt;
  return std::move(*bytes);
}

}  // namespace warmroot::manager
