// Which kernel an ELF file is made for, by its notes: a table of files that others wrote.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bootstrap/warm/elf_needs.hpp"

namespace warmroot::warm {
namespace {

const std::string kGnu("GNU", 4);  // with its end

ReadBytes of(const std::string& bytes) {
  return [&bytes](ByteRange range) {
    return range.offset >= bytes.size() ? std::string() : bytes.substr(range.offset, range.length);
  };
}

template <typename Record>
std::string bytes_of(const Record& record) {
  return std::string(reinterpret_cast<const char*>(&record), sizeof record);
}

std::string padded(std::string bytes, std::size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  return bytes;
}

std::string note(std::uint32_t type, const std::string& name,
                 const std::vector<std::uint32_t>& words, std::size_t alignment = 4) {
  Elf64_Nhdr header{};
  header.n_namesz = static_cast<std::uint32_t>(name.size());
  header.n_descsz = static_cast<std::uint32_t>(words.size() * sizeof(std::uint32_t));
  header.n_type = type;
  std::string bytes = padded(bytes_of(header) + name, alignment);
  for (const std::uint32_t word : words) bytes += bytes_of(word);
  return padded(bytes, alignment);
}

const std::string kLinux32 = note(NT_GNU_ABI_TAG, kGnu, {ELF_NOTE_OS_LINUX, 3, 2, 0});

/// A file of nothing but segments of notes, one behind the other.
std::string file_of(const std::vector<std::string>& segments, std::uint64_t alignment = 4) {
  Elf64_Ehdr file{};
  std::memcpy(file.e_ident, ELFMAG, SELFMAG);
  file.e_ident[EI_CLASS] = ELFCLASS64;
  file.e_ident[EI_DATA] = ELFDATA2LSB;
  file.e_phoff = sizeof file;
  file.e_phentsize = sizeof(Elf64_Phdr);
  file.e_phnum = static_cast<std::uint16_t>(segments.size());
  std::string headers, contents;
  for (const std::string& segment : segments) {
    Elf64_Phdr header{};
    header.p_type = PT_NOTE;
    header.p_offset = sizeof file + segments.size() * sizeof header + contents.size();
    header.p_filesz = segment.size();
    header.p_align = alignment;
    headers += bytes_of(header);
    contents += segment;
  }
  return bytes_of(file) + headers + contents;
}

std::optional<KernelVersion> least_of(const std::string& file) {
  return elf_least_kernel(of(file));
}

constexpr KernelVersion k32 = {3, 2, 0};

TEST(ElfNotes, say_which_kernel_a_file_is_made_for) {
  const std::string id = note(NT_GNU_BUILD_ID, kGnu, {1, 2, 3, 4, 5});
  EXPECT_EQ(least_of(file_of({kLinux32})), k32);
  EXPECT_EQ(least_of(file_of({id + kLinux32})), k32) << "behind another";
  EXPECT_EQ(least_of(file_of({id, kLinux32})), k32) << "in the second segment";
  EXPECT_EQ(least_of(file_of({"", kLinux32})), k32);
  EXPECT_EQ(least_of(file_of({note(NT_GNU_PROPERTY_TYPE_0, kGnu, {1, 2, 3}, 8) +
                              note(NT_GNU_ABI_TAG, kGnu, {ELF_NOTE_OS_LINUX, 6, 18, 1}, 8)},
                             8)),
            (KernelVersion{6, 18, 1}))
      << "by eights";
}

TEST(ElfNotes, of_others_and_of_damaged_files_say_nothing) {
  const std::string whole = file_of({kLinux32});
  struct Case {
    const char* what;
    std::string file;
  };
  std::string big_endian = whole, small = whole;
  big_endian[EI_DATA] = ELFDATA2MSB;
  small[EI_CLASS] = ELFCLASS32;
  const std::string endless = note(NT_GNU_BUILD_ID, std::string(2, '\0'), {});
  std::string liar = kLinux32, long_name = kLinux32;
  liar[4] = liar[5] = liar[6] = liar[7] = '\xff';
  long_name[0] = long_name[1] = long_name[2] = long_name[3] = '\xff';
  for (const Case& each :
       std::vector<Case>{{"nothing", ""},
                         {"a script", "#!/bin/sh\n"},
                         {"no notes", file_of({})},
                         {"an empty segment", file_of({""})},
                         {"another byte order", big_endian},
                         {"32 bits", small},
                         {"another type", file_of({note(NT_GNU_HWCAP, kGnu, {0, 3, 2, 0})})},
                         {"another's name", file_of({note(NT_GNU_ABI_TAG, "NetB", {0, 3, 2, 0})})},
                         {"a shorter name", file_of({note(NT_GNU_ABI_TAG, "GNU", {0, 3, 2, 0})})},
                         {"another system", file_of({note(NT_GNU_ABI_TAG, kGnu, {1, 3, 2, 0})})},
                         {"too short a content", file_of({note(NT_GNU_ABI_TAG, kGnu, {0, 3, 2})})},
                         {"a content beyond the end", file_of({liar})},
                         {"a name beyond the end", file_of({long_name})},
                         {"more notes than are looked at", file_of({[&] {
                            std::string many;
                            while (many.size() < 8192) many += endless;
                            return many + kLinux32;
                          }()})},
                         {"cut off", whole.substr(0, whole.size() - 4)}})
    EXPECT_EQ(least_of(each.file), std::nullopt) << each.what;
}

TEST(ElfNotes, of_files_damaged_anywhere_end_in_something) {
  std::ifstream file("/bin/sh", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_TRUE(least_of(whole).has_value());
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  int found = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes = whole.substr(0, 8192);
    for (int i = 0; i < 8; ++i) bytes[random() % 2048] = static_cast<char>(random());
    std::uint64_t most = 0;
    const ReadBytes whole_read = of(bytes);
    const auto least = elf_least_kernel([&](ByteRange range) {
      most = std::max(most, range.length);
      return whole_read(range);
    });
    found += least.has_value() ? 1 : 0;
    ASSERT_LE(most, 4096U);
  }
  EXPECT_GT(found, 0) << "seed " << kSeed;
}

}  // namespace
}  // namespace warmroot::warm
