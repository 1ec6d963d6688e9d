#include "bootstrap/warm/elf_needs.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace warmroot::warm {
namespace {

constexpr std::uint64_t kMostHeaders = 64;
constexpr std::uint64_t kMostDynamic = 64 * 1024;
constexpr std::uint64_t kMostNames = 1024 * 1024;
constexpr std::uint64_t kMostPath = 4096;
constexpr std::size_t kMostLibraries = 256;
constexpr std::uint64_t kMostNotes = 4096;

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

/// None where it is no 64-bit little-endian file.
std::vector<Elf64_Phdr> program_headers(const ReadBytes& read) {
  const std::string start = read({0, sizeof(Elf64_Ehdr)});
  if (start.size() != sizeof(Elf64_Ehdr) || !start.starts_with(ELFMAG)) return {};
  const auto file = records<Elf64_Ehdr>(start).front();
  if (file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_ident[EI_DATA] != ELFDATA2LSB ||
      file.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  return records<Elf64_Phdr>(read(
      {file.e_phoff, std::min<std::uint64_t>(file.e_phnum, kMostHeaders) * sizeof(Elf64_Phdr)}));
}

/// Of a segment of notes: header, name and content, the latter two each up to the next multiple of
/// the segment's alignment.
std::optional<KernelVersion> least_kernel_in(const std::string& notes, std::uint64_t alignment) {
  constexpr std::string_view kGnu(ELF_NOTE_GNU, sizeof ELF_NOTE_GNU);  // with its end
  const auto aligned = [alignment](std::uint64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    const std::uint64_t content = at + aligned(sizeof note + std::uint64_t{note.n_namesz});
    const std::uint64_t end = content + note.n_descsz;
    if (end > notes.size()) return std::nullopt;
    const std::string_view name(notes.data() + at + sizeof note, note.n_namesz);
    std::array<std::uint32_t, 4> words{};  // which system, and the version
    if (note.n_type == NT_GNU_ABI_TAG && name == kGnu && note.n_descsz >= sizeof words) {
      std::memcpy(words.data(), notes.data() + content, sizeof words);
      if (words[0] == ELF_NOTE_OS_LINUX) return KernelVersion{words[1], words[2], words[3]};
    }
    at += aligned(end - at);
  }
  return std::nullopt;
}

}  // namespace

std::optional<KernelVersion> elf_least_kernel(const ReadBytes& read) {
  for (const Elf64_Phdr& header : program_headers(read)) {
    if (header.p_type != PT_NOTE) continue;
    const std::string notes =
        read({header.p_offset, std::min<std::uint64_t>(header.p_filesz, kMostNotes)});
    if (const auto least = least_kernel_in(notes, header.p_align == 8 ? 8 : 4)) return least;
  }
  return std::nullopt;
}

ElfNeeds elf_needs(const ReadBytes& read) {
  ElfNeeds needs;
  const auto headers = program_headers(read);
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
