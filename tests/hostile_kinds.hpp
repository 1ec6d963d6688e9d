// What can stand in a volume where something else should be, and what is true of the base whatever
// does: shared by the tests of hostile volumes, one for each of the entries `chroot`, `sshd` and
// `nspawn`.
#pragma once

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/mount_exec.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {

struct HostileKind {
  const char* name;
  const char* make;  ///< at $p, where nothing is
};

/// Links out of the volume would lead to it.
inline constexpr char kCanary[] = "/etc/canary";
/// And this one would be made.
inline constexpr char kDangling[] = "/run/warmroot/none";

inline constexpr HostileKind kHostileKinds[] = {
    {"pipe", "mkfifo $p"},
    {"character_device", "mknod $p c 1 5"},
    {"block_device", "mknod $p b 7 63"},
    {"directory", "mkdir $p"},
    {"empty_file", ": >$p"},
    {"unreadable_rubbish", "echo x >$p; chmod 0 $p"},
    {"gibibyte", "truncate -s 1G $p"},
    {"endless_device", "ln -s /dev/zero $p"},
    {"link_to_itself", "ln -s $(basename $p) $p"},
    {"dangling_link", "ln -s /run/warmroot/none $p"},
    {"link_upwards", "ln -s ../../../../../../../../../etc $p"},
    {"link_to_a_file_of_the_base", "ln -s ../../../../../../../../../etc/canary $p"},
    {"link_through_proc", "ln -s /proc/1/root/etc $p"}};

/// A place in a volume, relative to its root, and in which round it is hostile.
struct HostilePlace {
  const char* path;
  int round;               ///< places of one number are hostile at once; none lies in another
  bool is_needed = false;  ///< what is read after it may not be read any more where it is hostile
};
/// What is hostile in one bring-up, by one kind.
struct HostileRound {
  std::vector<std::string> paths;
  bool is_needed = false;  ///< one of them is
};
enum class NeededPlaces { only_together, some_alone };

/// By WARMROOT_HOSTILE=all each place is hostile alone, with each kind.
inline bool is_each_place_alone() {
  const char* value = std::getenv("WARMROOT_HOSTILE");
  return value != nullptr && std::string(value) == "all";
}

/// The bring-ups of one kind, given by its number: each place is hostile in one of them. Of those
/// that are needed the first that is read hides the others of its round; with some_alone each is
/// therefore alone with every third kind, and the others of its round are without it then.
inline std::vector<HostileRound> hostile_rounds(std::span<const HostilePlace> places,
                                                std::size_t kind, NeededPlaces needed) {
  constexpr std::size_t kAloneEvery = 3;
  std::vector<HostileRound> rounds;
  std::map<int, HostileRound> together;
  std::size_t number = 0;  // of those that are needed
  for (const HostilePlace& place : places) {
    const bool is_its_turn = place.is_needed && (number++ + kind) % kAloneEvery == 0;
    if (is_each_place_alone() || (needed == NeededPlaces::some_alone && is_its_turn)) {
      rounds.push_back({{place.path}, place.is_needed});
      continue;
    }
    HostileRound& round = together[place.round];
    round.paths.emplace_back(place.path);
    round.is_needed = round.is_needed || place.is_needed;
  }
  for (auto& [number_of_round, round] : together) rounds.push_back(std::move(round));
  return rounds;
}

/// That no kind is left out at any place, that no place of a round lies in another, and how often
/// those that are needed are alone.
inline void expect_each_kind_at_each_place(std::span<const HostilePlace> places,
                                           NeededPlaces needed) {
  constexpr int kLeastAlone = 4;
  std::map<std::string, int> alone;
  for (std::size_t kind = 0; kind < std::size(kHostileKinds); ++kind) {
    std::map<std::string, int> tried;
    for (const HostileRound& round : hostile_rounds(places, kind, needed))
      for (const std::string& path : round.paths) {
        ++tried[path];
        alone[path] += round.paths.size() == 1 ? 1 : 0;
        for (const std::string& other : round.paths)
          EXPECT_FALSE(other.starts_with(path + "/")) << other << " with " << path;
      }
    for (const HostilePlace& place : places)
      EXPECT_EQ(tried[place.path], 1) << kHostileKinds[kind].name << " at " << place.path;
  }
  for (const HostilePlace& place : places)
    if (place.is_needed && needed == NeededPlaces::some_alone)
      EXPECT_GE(alone[place.path], kLeastAlone) << place.path;
}

/// For sh(1) in the root of the volume. What was there is kept beside it.
inline std::string script_to_put(const std::string& place, const HostileKind& kind) {
  return "p=" + place + "; mkdir -p $(dirname $p)\n" +
         "if [ -e $p ] || [ -L $p ]; then mv $p $p.was; fi\n" + kind.make + "\n";
}
inline std::string script_to_put_back(const std::string& place) {
  return "p=" + place + "; rm -rf $p\nif [ -e $p.was ] || [ -L $p.was ]; then mv $p.was $p; fi\n";
}

/// Accounts that would write on a terminal, climb out of a directory, or be an option of ssh's: for
/// the volume's passwd, by printf(1).
inline constexpr char kHostilePeople[] = R"sh(
    printf 'ev\033il:x:2002:2002::/home/evil:/bin/sh\n'
    printf '../../etc/cron.d/x:x:2003:2003::/home/x:/bin/sh\n'
    printf -- '-oProxyCommand:x:2004:2004::/home/x:/bin/sh\n'
    printf '..:x:2005:2005::/home/x:/bin/sh\n'
    printf 'eve:x:2006:2006:\033]0;title\007:/home/../../etc:/bin/sh\n'
    printf 'mal:x:2007:2007::/home/mal\033[2J:/bin/sh\033[2J\n')sh";

/// What waits for a pipe, or for sshd at one, takes 90 s; sshd reads a gibibyte of keys in some.
inline constexpr std::chrono::seconds kBringUpInTime{40};
#ifdef WARMROOT_SANITIZED
inline constexpr long kMostGrowthKib = 512 * 1024;  // it keeps what was freed for a while
#else
inline constexpr long kMostGrowthKib = 64 * 1024;
#endif

/// BootWhole, or a fixture made of it, whose volume is changed between bring-ups.
template <typename Fixture>
class HostileVolume : public Fixture {
 protected:
  /// Bring-up and release sync the volume a dozen times, and no power cut is tried here.
  HostileVolume() { this->images_ = "/run"; }

  static long peak_kib() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  }
  static void put_canary() { ASSERT_TRUE(shell(std::string("umask 027; echo alive >") + kCanary)); }
  /// Inode, mode, owner, time of the last change and content.
  static std::string canary() {
    return *shell("echo $(stat -c '%i %a %u %z' " + std::string(kCanary) + ") $(cat " + kCanary +
                  ")");
  }
  /// The names of what the base keeps.
  static std::string outside() {
    return *shell("find /etc /run/keys /var/lib 2>/dev/null | sort | paste -s -d ' '");
  }

  void change_volume(const std::string& script) {
    this->mount_volume();
    const auto done = shell("cd " + std::string(kVolumePoint) + "\n" + script + "\ncd /");
    ASSERT_TRUE(done) << done.error().message();
    ASSERT_TRUE(unmount_tree(kVolumePoint));
  }
  /// These are of that kind from now on, and what was before is as it was: in one mount.
  void make_hostile(const std::vector<std::string>& places, const HostileKind& kind) {
    std::string script;
    for (const auto& place : std::exchange(hostile_, places)) script += script_to_put_back(place);
    for (const auto& place : places) script += script_to_put(place, kind);
    change_volume(script);
  }
  void put_back() { make_hostile({}, kHostileKinds[0]); }

  /// With WARMROOT_SHOW set, a line of what came of a round.
  static void show(const HostileKind& kind, const std::vector<std::string>& places,
                   const std::string& what) {
    if (std::getenv("WARMROOT_SHOW") == nullptr) return;
    std::string names;
    for (const auto& place : places) names += (names.empty() ? "" : ", ") + place;
    std::printf("%s at %s: %s\n", kind.name, names.c_str(), what.c_str());
  }

  /// Whether it came up. It does, or does not, in time, and what it says has no control characters;
  /// `look` is for before it is given back, or when it did not come up. The base is as it was
  /// afterwards.
  bool comes_up(const std::function<void(const Status&)>& look = {}) {
    Assignment assignment;
    StatusBook book("");
    const auto start = std::chrono::steady_clock::now();
    const Ok done = bring_up(this->input_, assignment, book, this->stop_);
    EXPECT_LT(std::chrono::steady_clock::now() - start, bring_up_limit_);
    const std::string said = done ? "" : done.error().message();
    EXPECT_EQ(said, without_controls(said));
    for (const char* file : {kMessageOfTheDay, kBannerFile}) {
      std::string shown = read_file(file, kMaxStatus).value_or("");
      std::replace(shown.begin(), shown.end(), '\n', ' ');
      EXPECT_EQ(shown, without_controls(shown)) << file;
    }
    if (look) look(book.snapshot());
    if (done) {
      EXPECT_TRUE(release(leaving(), assignment, book));
    }
    EXPECT_THAT(mounts_at(kVolumePoint), testing::IsEmpty());
    EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), this->passwd_);
    EXPECT_EQ(::access(kAccountRecord, F_OK), -1);
    EXPECT_EQ(::access(kDangling, F_OK), -1);
    EXPECT_NE(this->session_os(), "Test Volume 1");
    EXPECT_TRUE(check_device_free("/dev/vdz"));
    return done.has_value();
  }

  /// Whether it served as the volume does when nothing is hostile; and what is shown of it.
  struct Tried {
    bool serves = false;
    std::string said;
  };
  /// By `bring_up_once`, each round of each kind. It serves where nothing that is needed is
  /// hostile, takes bounded memory, and leaves the base as it was. The volume is as it was
  /// afterwards.
  void try_each_round(std::span<const HostilePlace> places, NeededPlaces needed,
                      const std::function<Tried()>& bring_up_once) {
    const std::string before_all = outside(), alive = canary();
    for (std::size_t number = 0; number < std::size(kHostileKinds); ++number) {
      const HostileKind& kind = kHostileKinds[number];
      SCOPED_TRACE(kind.name);
      for (const HostileRound& round : hostile_rounds(places, number, needed)) {
        SCOPED_TRACE(testing::PrintToString(round.paths));
        const long before = peak_kib();
        make_hostile(round.paths, kind);
        const Tried tried = bring_up_once();
        show(kind, round.paths, tried.said);
        EXPECT_TRUE(tried.serves || round.is_needed) << tried.said;
        EXPECT_LT(peak_kib() - before, kMostGrowthKib);
        EXPECT_EQ(canary(), alive);
      }
      EXPECT_EQ(outside(), before_all);
    }
    put_back();
  }

  std::chrono::seconds bring_up_limit_ = kBringUpInTime;

 private:
  std::vector<std::string> hostile_;  ///< places that are
};

}  // namespace warmroot::bootstrap
