#include "bootstrap/warm/elf_needs.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace warmroot::warm {
namespace {

constexpr std::uint64_t kMostHeaders = 64;
constexpr std::uint64_t kMostDynamic = 64 * 1024;
constexpr std::uint64_t kMostNames = 1024 * 1024;
constexpr std::uint64_t kMostPath = 4096;
constexpr std::size_t kMostLibraries = 256;

template <typename Record>
std::vector<Record> records(const std::string& bytes) {
  std::vector<Record> all(bytes.size() / sizeof(Record));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), all.size() * sizeof(Record));
  return all;
}

/// The string that begins at `at`; nullopt where it does not end.
std::optional<std::string> text_at(const std::string& bytes, std::uint64_t at) {
  if (at >= bytes.size()) return std::nullopt;
  const auto end = bytes.find('\0', at);
  if (end == std::string::npos || end == at || end - at > kMostPath) return std::nullopt;
  return bytes.substr(at, end - at);
}

/// Where in the file an address of the running program is.
std::optional<std::uint64_t> file_offset(const std::vector<Elf64_Phdr>& headers,
                                         std::uint64_t address) {
  for (const Elf64_Phdr& header : headers)
    if (header.p_type == PT_LOAD && address >= header.p_vaddr &&
        address - header.p_vaddr < header.p_filesz)
      return header.p_offset + (address - header.p_vaddr);
  return std::nullopt;
}

}  // namespace

ElfNeeds elf_needs(const ReadBytes& read) {
  ElfNeeds needs;
  const std::string start = read({0, sizeof(Elf64_Ehdr)});
  if (start.size() != sizeof(Elf64_Ehdr) || !start.starts_with(ELFMAG)) return needs;
  const auto file = records<Elf64_Ehdr>(start).front();
  if (file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_ident[EI_DATA] != ELFDATA2LSB ||
      file.e_phentsize != sizeof(Elf64_Phdr))
    return needs;
  const auto headers = records<Elf64_Phdr>(read(
      {file.e_phoff, std::min<std::uint64_t>(file.e_phnum, kMostHeaders) * sizeof(Elf64_Phdr)}));
  std::vector<Elf64_Dyn> dynamic;
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_INTERP)
      needs.interpreter =
          text_at(read({header.p_offset, std::min<std::uint64_t>(header.p_filesz, kMostPath)}), 0)
              .value_or("");
    if (header.p_type == PT_DYNAMIC && dynamic.empty())
      dynamic = records<Elf64_Dyn>(
          read({header.p_offset, std::min<std::uint64_t>(header.p_filesz, kMostDynamic)}));
  }
  std::uint64_t names_at = 0;
  std::uint64_t names_bytes = 0;
  for (const Elf64_Dyn& entry : dynamic) {
    if (entry.d_tag == DT_STRTAB) names_at = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) names_bytes = std::min(entry.d_un.d_val, kMostNames);
  }
  const auto at = file_offset(headers, names_at);
  if (!at || names_bytes == 0) return needs;
  const std::string names = read({*at, names_bytes});
  for (const Elf64_Dyn& entry : dynamic) {
    if (entry.d_tag == DT_NULL || needs.libraries.size() == kMostLibraries) break;
    if (entry.d_tag != DT_NEEDED) continue;
    if (auto name = text_at(names, entry.d_un.d_val)) needs.libraries.push_back(std::move(*name));
  }
  return needs;
}

}  // namespace warmroot::warm
