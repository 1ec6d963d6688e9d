// What sessions of each lineage read first, as their nodes recorded it: the first node teaches the
// ones that get a cold volume after it. A file a lineage in the state directory; a list that is
// lost is learned again by new volumes. Called from the report server's threads and the daemon's
// loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "manager/asked_lists.hpp"

namespace warmroot::manager {

/// Whose recording it is, by what the manager knows.
struct Teacher {
  std::string pool;
  std::string lineage;
  std::string volume_id;
  std::string instance_id;
};

class HotLists {
 public:
  /// `directory` is made when the first list comes.
  explicit HotLists(std::string directory,
                    std::chrono::milliseconds asked_pause = warm::kAskedPause)
      : directory_(std::move(directory)), asked_pause_(asked_pause) {}

  /// Merges a node's recording into the lineage's list, in place of what the instance said so far,
  /// and remembers the pool's latest lineages. A volume teaches once: what comes of it later
  /// changes nothing. Errors: refused when the text is no hot list (the node is not trusted) or the
  /// lineage is no snapshot's id; the file system's.
  Ok add(const Teacher& from, std::string_view recording);

  /// What an instance has recorded so far: handed out with the lineage's list until it is replaced,
  /// many others have spoken since, or this process ends; not of a volume that has taught. Errors:
  /// refused, as add().
  Ok add_so_far(const Teacher& from, std::string_view recording);

  /// What somebody on the node has asked to be recorded, in place of what was asked for on this
  /// volume before: of those on which something was, the latest count. It adds to the volume's one
  /// recording, so that whoever is root there makes nobody else's share less; until there is that
  /// one it stands for it. It fades as one recording does: each that is merged into a list of
  /// kMostRecordings leaves it a seventeenth less, so that it leaves the list with the 13th where
  /// no other volume says the same. Asked for again it weighs as at first. What all volumes of the
  /// lineage asked for is together no longer than one list (AskedLists). Errors: refused, as add();
  /// retry_later sooner than a pause after the volume's last, or where sixteen volumes were heard
  /// within it; the file system's.
  Ok add_asked(const Teacher& from, std::string_view recording);

  /// The lineage's list as text; nullopt when nobody has recorded one. In a storm of recordings and
  /// questions it may lack the latest: merging never takes more than a tenth of a processor.
  std::optional<std::string> of(const std::string& lineage);

  /// Lists of these are not forgotten, however many there are.
  void keep(std::set<std::string> lineages);

  /// The list that the pool recorded last on volumes of another lineage than this one: its files
  /// may be elsewhere here, or nowhere.
  std::optional<std::string> of_pool(const std::string& pool, const std::string& but_lineage);

 private:
  using Clock = std::chrono::steady_clock;
  std::string path_of(const std::string& lineage, const char* suffix) const;
  std::optional<std::optional<std::string>> merged(const std::string& lineage);
  std::optional<std::string> merge_anew(const std::string& lineage);
  std::set<std::string> volumes_that_taught(const std::string& lineage) const;
  bool has_taught(const Teacher& from) const;
  void mark_taught(const Teacher& from) const;
  AskedLists asked_of(const std::string& lineage) const;
  void fade_asked(const std::string& lineage) const;
  void forget_so_far(const Teacher& from);
  void forget_others() const;
  std::optional<std::string> read(const std::string& lineage) const;
  std::vector<std::string> lineages_of(const std::string& pool) const;
  void remember(const std::string& pool, const std::string& lineage) const;

  const std::string directory_;
  const std::chrono::milliseconds asked_pause_;
  std::mutex merging_;  // one at a time, also of those that write files
  std::map<std::string, Clock::time_point> asked_at_;  ///< by volume, within the pause; merging_'s
  mutable std::mutex mutex_;  // of what follows; never held while anything is merged or written
  struct SoFar {
    std::uint64_t number = 0;  ///< grows with each that is heard
    std::string volume_id;
    warm::HotList list;
  };
  std::map<std::string, SoFar> so_far_;  ///< by instance
  std::uint64_t heard_ = 0;
  struct Merged {
    std::optional<std::string> text;
    bool made = false;
    bool stale = false;       ///< more has been heard since
    Clock::time_point again;  ///< not made anew before
  };
  std::map<std::string, Merged> merged_;  ///< by lineage
  std::set<std::string> in_use_;
};

}  // namespace warmroot::manager
