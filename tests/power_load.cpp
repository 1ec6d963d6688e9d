#include "tests/power_load.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <tuple>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/sector.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot {
namespace {

constexpr std::uint64_t kDeletedBytes = 4096;
constexpr std::uint64_t kSectors = 48;
constexpr std::uint64_t kStreamBytes = 512 * 1024;
constexpr std::uint64_t kStreams = 16;
constexpr std::size_t kLargestFile = 20'000;
/// Between two programs' operations: the load is to be spread over the log's time.
constexpr int kPauseMs = 1;

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t key_of(std::uint64_t seed, const std::string& name, std::uint64_t version) {
  std::uint64_t key = mixed(seed ^ version);
  for (const char c : name) key = mixed(key ^ static_cast<unsigned char>(c));
  return key;
}

/// `length` bytes from `offset`, a multiple of 8, of the content that `key` means.
std::string content(std::uint64_t key, std::uint64_t offset, std::size_t length) {
  std::string bytes(length + 8, '\0');
  for (std::size_t at = 0; at < length; at += 8) {
    const std::uint64_t word = mixed(key + offset + at);
    std::memcpy(&bytes[at], &word, 8);
  }
  bytes.resize(length);
  return bytes;
}

/// A whole file or sector: its version, its length, and what follows from both.
std::string document(std::uint64_t seed, const std::string& name, std::uint64_t version,
                     std::uint64_t length) {
  std::string bytes(16, '\0');
  std::memcpy(&bytes[0], &version, 8);
  std::memcpy(&bytes[8], &length, 8);
  return bytes + content(key_of(seed, name, version), 0, length - 16);
}

/// The version of a whole document; nullopt where it is none.
std::optional<std::uint64_t> version_of(std::uint64_t seed, const std::string& name,
                                        const std::string& bytes) {
  if (bytes.size() < 16) return std::nullopt;
  std::uint64_t version = 0, length = 0;
  std::memcpy(&version, bytes.data(), 8);
  std::memcpy(&length, &bytes[8], 8);
  if (length != bytes.size() || document(seed, name, version, length) != bytes) return std::nullopt;
  return version;
}

UniqueFd open_file(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  CHECK(fd);
  return fd;
}

void write_all(int fd, const std::string& bytes) {
  CHECK(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

void sync_directory(const std::string& path) {
  CHECK(::fsync(open_file(path, O_RDONLY | O_DIRECTORY).get()) == 0);
}

std::optional<std::string> read_whole(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (!fd || ::fstat(fd.get(), &facts) != 0) return std::nullopt;
  std::string bytes(static_cast<std::size_t>(facts.st_size), '\0');
  if (::read(fd.get(), bytes.data(), bytes.size()) != facts.st_size) return std::nullopt;
  return bytes;
}

std::string stream_name(std::uint64_t number) {
  return "stream." + std::to_string(number);
}

}  // namespace

void PowerLoad::promise(const std::string& name, std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  promises_.push_back({log_.size(), name, value});
}

std::vector<Promise> PowerLoad::promises() const {
  const std::lock_guard lock(mutex_);
  return promises_;
}

void PowerLoad::append_stream() {
  std::mt19937_64 random(seed_);
  for (std::uint64_t number = 0; number < kStreams && goes_on(); ++number) {
    const std::string name = stream_name(number);
    const UniqueFd fd = open_file(directory_ + "/" + name, O_WRONLY | O_CREAT | O_APPEND);
    sync_directory(directory_);
    for (std::uint64_t size = 0; size < kStreamBytes && goes_on();) {
      const std::size_t length = 8 * (1 + random() % 1200);
      write_all(fd.get(), content(key_of(seed_, name, 0), size, length));
      CHECK(::fdatasync(fd.get()) == 0);
      promise(name, size += length);
      ::poll(nullptr, 0, kPauseMs);
    }
  }
}

void PowerLoad::replace_files() {
  std::mt19937_64 random(seed_ + 1);
  for (std::uint64_t version = 1; goes_on(); ++version) {
    const std::string name = "replaced." + std::to_string(random() % 8);
    const std::string path = directory_ + "/" + name;
    {
      const UniqueFd fd = open_file(path + ".new", O_WRONLY | O_CREAT | O_TRUNC);
      write_all(fd.get(), document(seed_, name, version, 16 + random() % kLargestFile));
      CHECK(::fsync(fd.get()) == 0);
    }
    CHECK(::rename((path + ".new").c_str(), path.c_str()) == 0);
    sync_directory(directory_);
    promise(name, version);
    ::poll(nullptr, 0, kPauseMs);
  }
}

void PowerLoad::overwrite_sectors() {
  std::mt19937_64 random(seed_ + 2);
  const UniqueFd fd = open_file(directory_ + "/sectors", O_RDWR | O_CREAT);
  for (std::uint64_t version = 1; goes_on(); ++version) {
    // The first round fills the file.
    const std::uint64_t number = version <= kSectors ? version - 1 : random() % kSectors;
    const std::string name = "sectors." + std::to_string(number);
    const std::string bytes = document(seed_, name, version, kSector);
    CHECK(::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(number * kSector)) ==
          static_cast<ssize_t>(kSector));
    CHECK(::fdatasync(fd.get()) == 0);
    if (version == 1) sync_directory(directory_);
    promise(name, version);
    ::poll(nullptr, 0, kPauseMs);
  }
}

/// Each file lives for half a round of the names, and is gone for the other half.
void PowerLoad::delete_files() {
  constexpr std::uint64_t kNames = 16;
  const auto name_of = [](std::uint64_t number) {
    return "deleted." + std::to_string(number % kNames);
  };
  for (std::uint64_t number = 0; goes_on(); ++number) {
    const std::string made = name_of(number), deleted = name_of(number + kNames / 2);
    promise(made, kNothing);
    {
      const UniqueFd fd = open_file(directory_ + "/" + made, O_WRONLY | O_CREAT | O_TRUNC);
      write_all(fd.get(), document(seed_, made, number + 1, kDeletedBytes));
      CHECK(::fsync(fd.get()) == 0);
    }
    sync_directory(directory_);
    promise(made, number + 1);
    ::poll(nullptr, 0, kPauseMs);
    if (number < kNames / 2) continue;
    promise(deleted, kNothing);
    CHECK(::unlink((directory_ + "/" + deleted).c_str()) == 0);
    sync_directory(directory_);
    promise(deleted, kGone);
  }
}

void PowerLoad::write_unsynced() {
  std::mt19937_64 random(seed_ + 3);
  const std::string folder = directory_ + "/unsynced";
  CHECK(::mkdir(folder.c_str(), 0755) == 0);
  while (goes_on()) {
    const std::string path = folder + "/" + std::to_string(random() % 60);
    switch (random() % 4) {
      case 0:
        ::unlink(path.c_str());
        break;
      case 1:
        std::ignore = ::rename(path.c_str(), (path + ".other").c_str());
        break;
      case 2:
        std::ignore = ::truncate(path.c_str(), static_cast<off_t>(random() % 100'000));
        break;
      default:
        write_all(open_file(path, O_WRONLY | O_CREAT | O_APPEND).get(),
                  content(random(), 0, random() % 60'000));
    }
    struct stat facts {};
    if (::stat(path.c_str(), &facts) == 0 && facts.st_size > 400'000) ::unlink(path.c_str());
    ::poll(nullptr, 0, kPauseMs);
  }
}

void PowerLoad::run(std::chrono::milliseconds time) {
  CHECK(::mkdir(directory_.c_str(), 0755) == 0);
  sync_directory(directory_.substr(0, directory_.rfind('/')));
  end_ = std::chrono::steady_clock::now() + time;
  const std::jthread programs[] = {
      std::jthread([this] { append_stream(); }), std::jthread([this] { replace_files(); }),
      std::jthread([this] { overwrite_sectors(); }), std::jthread([this] { delete_files(); }),
      std::jthread([this] { write_unsynced(); })};
}

std::vector<std::string> PowerLoad::broken(const std::string& directory, std::uint64_t seed,
                                           const Promised& promised) {
  std::vector<std::string> broken;
  const auto sectors = read_whole(directory + "/sectors");
  for (const auto& [name, value] : promised) {
    if (value == kNothing) continue;
    const auto lost = [&](const std::string& what) {
      broken.push_back(name + " was promised with " + std::to_string(value) + ", and " + what);
    };
    const bool sector = name.rfind("sectors.", 0) == 0;
    std::optional<std::string> bytes;
    if (!sector) bytes = read_whole(directory + "/" + name);
    if (sector && sectors && sectors->size() > std::stoul(name.substr(8)) * kSector)
      bytes = sectors->substr(std::stoul(name.substr(8)) * kSector, kSector);
    if (value == kGone) {
      if (bytes) lost("is there again");
    } else if (!bytes) {
      lost("is not there");
    } else if (name.rfind("stream.", 0) == 0) {
      if (bytes->size() < value ||
          content(key_of(seed, name, 0), 0, value) != bytes->substr(0, value))
        lost("has other bytes, " + std::to_string(bytes->size()));
    } else if (const auto version = version_of(seed, name, *bytes); !version || *version < value) {
      lost(version ? "has version " + std::to_string(*version) : "is not whole");
    }
  }
  return broken;
}

}  // namespace warmroot
