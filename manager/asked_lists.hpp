// What `record` was asked for on the volumes of one lineage: the latest of each of a few volumes,
// together no longer than any hot list. Pure; hot_lists keeps the text beside the lineage's list
// and merges it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/warm/hot_list.hpp"

namespace warmroot::manager {

class AskedLists {
 public:
  static constexpr std::size_t kMostVolumes = 8;
  /// Of text(): a list, and before it a line for each volume.
  static constexpr std::size_t kMostTextBytes =
      warm::kMostListBytes + (1 + kMostVolumes) * (160 + warm::kMostRanges);

  struct One {
    std::string volume_id;
    std::uint32_t weight = 0;  ///< of a thousand; the share of each of its ranges
    warm::HotList list;        ///< one recording
  };

  /// Empty where the text is none of ours, or is damaged.
  static AskedLists parse(const std::string& text);
  /// For parse(), which finds all of it, or as much as one list may hold in ranges and in bytes:
  /// what at least half of the volumes ask for first, then what they use first. Also left out is
  /// what weighs too little to be read ahead of use.
  std::string text() const;

  /// In place of what the volume asked for before, and at full weight. Of more than kMostVolumes
  /// the one that asked longest ago is left out. Requires a volume's id without spaces, of 128
  /// bytes at most.
  void add(const std::string& volume_id, warm::HotList list);
  /// One recording more has been merged into a list of as many as weigh: all of these lose of their
  /// weight what any one of that list's recordings does.
  void fade();

  /// The latest first.
  const std::vector<One>& all() const { return all_; }

 private:
  std::vector<One> all_;
};

}  // namespace warmroot::manager
