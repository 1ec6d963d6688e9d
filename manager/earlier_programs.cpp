#include "manager/earlier_programs.hpp"

#include <filesystem>
#include <string_view>
#include <utility>

#include "manager/aws/sigv4.hpp"
#include "manager/config.hpp"
#include "manager/state_files.hpp"

namespace warmroot::manager {
namespace {

constexpr const char* kProgramSuffix = ".program";
/// Of upgrades that come faster than instances boot.
constexpr std::size_t kMostPrograms = 4;

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string EarlierPrograms::path_of(const std::string& sha256) const {
  return directory_ + "/" + sha256 + kProgramSuffix;
}

Ok EarlierPrograms::keep(const BootstrapProgram& program) {
  const std::string path = path_of(program.sha256);
  if (of(program.sha256)) {  // the age of the file is that of its last use
    std::error_code ignored;
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), ignored);
    return {};
  }
  TRY(replace_file(path, program.bytes));
  forget_oldest(directory_, kProgramSuffix, kMostPrograms);
  return {};
}

EarlierPrograms::Bytes EarlierPrograms::of(const std::string& sha256) const {
  if (!is_digest(sha256)) return nullptr;
  const std::lock_guard lock(mutex_);
  if (const auto found = read_.find(sha256); found != read_.end()) return found->second;
  auto bytes = read_text_file(path_of(sha256), kMaxProgramBytes);
  if (!bytes || aws::sha256_hex(*bytes) != sha256) return nullptr;
  return read_[sha256] = std::make_shared<const std::string>(std::move(*bytes));
}

}  // namespace warmroot::manager
