// Power cuts by replay: the write log of a volume under load is cut at random places, what no flush
// had covered is dropped by a seed, and the bootstrap brings up what is left: checked before any
// session, nothing lost of what a program was told to be on the medium, and people get in. On ext4,
// which e2fsck -p repairs before the mount, and on xfs and btrfs, whose logs the mount replays.
//   WARMROOT_POWER_CUTS   how many of all three (100): 60 of 100 are ext4's, 20 each the others';
//                         with 1,000 and more the load is recorded for longer
//   WARMROOT_SEED         of load, places and drops (1). The log itself differs from run to run
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "bootstrap/base/units.hpp"
#include "bootstrap/mount_exec.hpp"
#include "tests/boot_whole.hpp"
#include "tests/power_load.hpp"
#include "tests/sim/ebs.hpp"
#include "tests/sim/write_log.hpp"

namespace warmroot::bootstrap {
namespace {

using sim::LoggedWrite;
using sim::PowerCutReplay;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kManyCuts = 1000;
constexpr std::size_t kMostFaults = 10;
/// log_root in the first superblock of a btrfs: where what was synced since its last transaction
/// lies; 0 where nothing was.
constexpr off_t kBtrfsTreeLog = 65536 + 96;

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

LoggedWrite write_at(int arrived, int answered, std::uint64_t page, std::size_t bytes = kPage) {
  return {sim::SimTime(arrived), sim::SimTime(answered), page * kPage,
          std::vector<char>(bytes, 'w')};
}
LoggedWrite flush_at(int arrived) {
  return {sim::SimTime(arrived), sim::SimTime(arrived + 1), 0, {}};
}

TEST(PowerCutReplay, a_flush_covers_what_was_answered_before_it_came) {
  const std::vector<LoggedWrite> log = {write_at(1, 2, 0), write_at(3, 9, 1), flush_at(5),
                                        write_at(6, 7, 2), flush_at(10)};
  PowerCutReplay replay(log);
  EXPECT_THAT(replay.advance(2), IsEmpty());
  EXPECT_THAT(replay.advance(3), ElementsAre(&log[0]));
  EXPECT_THAT(replay.advance(4), IsEmpty());
  EXPECT_THAT(replay.advance(5), ElementsAre(&log[1], &log[3]));
}

TEST(PowerCutReplay, what_no_flush_has_covered_is_kept_wholly_in_part_or_not_at_all) {
  const std::vector<LoggedWrite> log = {write_at(1, 2, 7), flush_at(3),
                                        write_at(4, 5, 0, 64 * kPage)};
  PowerCutReplay replay(log);
  replay.advance(log.size());
  int none = 0, all = 0, some = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    const auto pages = replay.survivors(random);
    for (const auto& page : pages) ASSERT_EQ(page.bytes.size(), kPage);
    ++(pages.empty() ? none : pages.size() == 64 ? all : some);
  }
  EXPECT_GT(none, 5);
  EXPECT_GT(all, 5);
  EXPECT_GT(some, 20);
}

/// The bytes of a volume, sparse.
class Medium {
 public:
  Medium(const std::string& image, std::uint64_t bytes) : bytes_(bytes), used_(bytes / kPage) {
    const UniqueFd file(::open(image.c_str(), O_RDONLY | O_CLOEXEC));
    CHECK(file);
    for (off_t at = 0; (at = ::lseek(file.get(), at, SEEK_DATA)) >= 0;) {
      const off_t end = ::lseek(file.get(), at, SEEK_HOLE);
      std::vector<char> run(static_cast<std::size_t>(end - at));
      CHECK(::pread(file.get(), run.data(), run.size(), at) == end - at);
      put_used(static_cast<std::uint64_t>(at), run);
      at = end;
    }
  }
  void put(std::uint64_t offset, std::span<const char> bytes) {
    std::ranges::copy(bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
    for (std::uint64_t page = offset / kPage; page * kPage < offset + bytes.size(); ++page)
      used_[page] = true;
  }
  /// All of it, and `pages` over it, into a file that nobody has mounted.
  void write_to(int file, const std::vector<PowerCutReplay::Page>& pages) const {
    CHECK(::ftruncate(file, 0) == 0 && ::ftruncate(file, static_cast<off_t>(bytes_.size())) == 0);
    for (std::uint64_t page = 0; page < used_.size();) {
      std::uint64_t end = page;
      while (end < used_.size() && used_[end]) ++end;
      write_bytes(file, page * kPage,
                  std::span(bytes_).subspan(page * kPage, (end - page) * kPage));
      page = end + 1;
    }
    for (const auto& page : pages) write_bytes(file, page.offset, page.bytes);
  }

 private:
  /// Without pages of zeros, which a new medium has anyway: mkfs.xfs writes a whole log of them.
  void put_used(std::uint64_t offset, std::span<const char> bytes) {
    static constexpr char kZeros[kPage] = {};
    for (std::size_t at = 0; at < bytes.size(); at += kPage) {
      const auto page = bytes.subspan(at, std::min<std::size_t>(kPage, bytes.size() - at));
      if (std::memcmp(page.data(), kZeros, page.size()) != 0) put(offset + at, page);
    }
  }
  static void write_bytes(int file, std::uint64_t offset, std::span<const char> bytes) {
    CHECK(::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
          static_cast<ssize_t>(bytes.size()));
  }
  std::vector<char> bytes_;
  std::vector<bool> used_;
};

/// Which of the cuts are of this root, and how many of them at least leave something to replay.
struct PowerCase {
  RootKind root;
  std::size_t share_percent;
  std::size_t unclean_percent;
};

class PowerLog : public BootWhole, public testing::WithParamInterface<PowerCase> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(BootWhole::SetUp());
    if (!IsSkipped()) need(GetParam().root);
  }
  static std::string filesystem() { return GetParam().root.filesystem; }
  static std::uint64_t volume_bytes() { return GetParam().root.mib * kMiB; }

  /// A volume's whole life with us: brought up, under load, given back.
  void record(milliseconds time) {
    ASSERT_NO_FATAL_FAILURE(make_volume_of(GetParam().root, "mkdir -p $t/var/lib"));
    ASSERT_TRUE(shell("losetup -d " + loop_));
    loop_.clear();
    ASSERT_TRUE(shell("[ -c /dev/fuse ] || mknod /dev/fuse c 10 229"));
    const auto log = std::make_shared<sim::WriteLog>();
    sim::EbsServer server({.mount_dir = "/run/ebs", .backing_dir = "/run/ebs-backing"});
    const Ok started = server.start();
    ASSERT_TRUE(started) << started.error().message();
    ASSERT_TRUE(server.create_volume("vol", image_, volume_bytes(), {.write_log = log}));
    server.mark_all_present("vol");
    loop_ = shell("losetup --direct-io=on -f --show /run/ebs/vol").value_or("");
    ASSERT_NE(loop_, "");
    dress_as_disk();
    ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
    PowerLoad load(inside("var/load"), *log, seed_);
    load.run(time);
    ASSERT_TRUE(release(leaving(), assignment_, book_));
    assignment_ = {};
    ::umount("/sys/block");
    ASSERT_TRUE(shell("losetup -d " + loop_));
    loop_.clear();
    promises_ = load.promises();
    log_ = log->take();
  }

  /// The disk of all replays.
  void attach_medium() {
    file_.reset(::open("/run/medium", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSERT_TRUE(file_);
    ASSERT_EQ(::ftruncate(file_.get(), static_cast<off_t>(volume_bytes())), 0);
    loop_ = shell("losetup -f --show /run/medium").value_or("");
    ASSERT_NE(loop_, "");
    disk_.reset(::open(loop_.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(disk_);
    dress_as_disk();
  }

  /// Whether a mount has nothing to replay. A log of xfs whose end xfs_logprint cannot find is
  /// torn.
  Result<bool> left_clean() const {
    if (filesystem() == "xfs")
      return shell("xfs_logprint -t /dev/vdz 2>&1 | sed '/state:/q' | grep -q '<CLEAN>'")
          .has_value();
    if (filesystem() == "btrfs") {
      std::uint64_t tree_log = 0;
      if (::pread(disk_.get(), &tree_log, sizeof tree_log, kBtrfsTreeLog) !=
          static_cast<ssize_t>(sizeof tree_log))
        return fail_errno("reading the superblock");
      return tree_log == 0;
    }
    TRY_ASSIGN(const ExtState state, read_ext_state(disk_.get(), 0));
    return state.cleanly_unmounted && !state.has_errors;
  }
  static std::string expected_check(bool clean) {
    if (filesystem() != "ext4") return "its log is replayed by mounting";
    return clean ? "clean" : "not left clean; e2fsck -p repaired it";
  }

  /// What is wrong after a cut that left this; empty when nothing is.
  std::string fault_after(const Medium& medium, const std::vector<PowerCutReplay::Page>& survivors,
                          const Promised& promised, bool vouched) {
    medium.write_to(file_.get(), survivors);
    if (::ioctl(disk_.get(), BLKFLSBUF, 0) != 0) return "the disk's old content is still in memory";
    const auto left = left_clean();
    if (!left) return left.error().message();
    const bool clean = *left;
    input_.confirmed_volume = [vouched] {
      return vouched ? std::optional<std::string>("vol-0abc") : std::nullopt;
    };
    StatusBook book("");
    std::string check;
    bool opened_unchecked = false;
    book.on_step([&] {
      const TimedStep step = book.snapshot().steps.back();
      if (step.name == "check " + filesystem()) check = step.detail;
      opened_unchecked |= check.empty() && session_os() == "Test Volume 1";
    });
    const Ok done = bring_up(input_, assignment_, book, stop_);
    std::string fault;
    if (!done) fault = "locked out: " + done.error().message();
    if (done && session_os() != "Test Volume 1") fault = "sessions do not land in the volume";
    if (opened_unchecked) fault = "a session could open before the check";
    if (done && check != expected_check(clean))
      fault = "left " + std::string(clean ? "clean" : "unclean") + ", and the check says " + check;
    for (const auto& lost : PowerLoad::broken(inside("var/load"), seed_, promised))
      fault += (fault.empty() ? "" : "; ") + lost;
    (clean ? clean_ : unclean_) += 1;
    const Ok undone = undo_bring_up(assignment_);
    if (!undone) return fault + "; " + undone.error().message();
    const auto sound = shell(std::string(GetParam().root.check) + " /dev/vdz");
    if (fault.empty() && !sound) fault = "something is still wrong: " + sound.error().message();
    return fault;
  }

  const std::uint64_t seed_ = number_of("WARMROOT_SEED", 1);
  std::vector<LoggedWrite> log_;
  std::vector<Promise> promises_;
  UniqueFd file_, disk_;
  std::size_t clean_ = 0, unclean_ = 0;
};

/// How often a btrfs has nothing to replay hangs on how many of the syncs end its transaction.
INSTANTIATE_TEST_SUITE_P(Roots, PowerLog,
                         testing::Values(PowerCase{kExt4Root, 60, 50}, PowerCase{kXfsRoot, 20, 50},
                                         PowerCase{kBtrfsRoot, 20, 0}),
                         [](const auto& one) { return std::string(one.param.root.filesystem); });

TEST_P(PowerLog, a_cut_anywhere_loses_nothing_that_was_flushed_and_locks_nobody_out) {
  const std::size_t all_cuts = number_of("WARMROOT_POWER_CUTS", 100);
  const std::size_t cuts = (all_cuts * GetParam().share_percent + 99) / 100;
  const std::int64_t started_ms = boottime_ms();
  ASSERT_NO_FATAL_FAILURE(record(milliseconds(all_cuts < kManyCuts ? 1500 : 10'000)));
  ASSERT_GT(promises_.size(), 50u);
  const auto flushes =
      std::ranges::count_if(log_, [](const LoggedWrite& entry) { return entry.is_flush(); });
  ASSERT_GT(flushes, 20);
  std::printf("recorded on %s: %zu entries, %zu of them flushes, %zu promises, seed %llu\n",
              filesystem().c_str(), log_.size(), static_cast<std::size_t>(flushes),
              promises_.size(), static_cast<unsigned long long>(seed_));
  ASSERT_NO_FATAL_FAILURE(attach_medium());
  testing::internal::CaptureStderr();  // the timelines of all bring-ups

  std::mt19937_64 random(seed_);
  std::vector<std::size_t> places(cuts);
  for (std::size_t& place : places) place = random() % (log_.size() + 1);
  std::ranges::sort(places);
  Medium medium(image_, volume_bytes());
  PowerCutReplay replay(log_);
  Promised promised;
  auto next = promises_.begin();
  std::vector<std::string> faults;
  std::size_t checked = 0, cut = 0;
  for (; cut < cuts && faults.size() < kMostFaults; ++cut) {
    for (const LoggedWrite* write : replay.advance(places[cut]))
      medium.put(write->offset, write->bytes);
    for (; next != promises_.end() && next->log_entries <= places[cut]; ++next)
      promised[next->name] = next->value;
    const std::string fault =
        fault_after(medium, replay.survivors(random), promised, random() % 2 == 0);
    checked += promised.size();
    if (!fault.empty())
      faults.push_back("cut " + std::to_string(cut) + " after entry " +
                       std::to_string(places[cut]) + ": " + fault);
  }
  testing::internal::GetCapturedStderr();
  disk_.reset();
  std::printf(
      "%s, %zu cuts: %zu left unclean and were repaired or replayed, %zu clean; %zu promises "
      "looked at, %zu faults; %lld s\n",
      filesystem().c_str(), cut, unclean_, clean_, checked, faults.size(),
      static_cast<long long>((boottime_ms() - started_ms) / 1000));
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_GE(unclean_ * 100, cut * GetParam().unclean_percent);
}

}  // namespace
}  // namespace warmroot::bootstrap
