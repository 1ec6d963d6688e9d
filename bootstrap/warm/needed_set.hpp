// What of the volume the root needs, and who says so: the list of what the volume's snapshot holds,
// where somebody has one, else the root's file system. Called by the warmer, more than once while
// sessions write. needed_search asks the file system; root_metadata has read what that will read.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/list_reader.hpp"
#include "bootstrap/warm/needed_search.hpp"
#include "bootstrap/warm/presence.hpp"
#include "bootstrap/warm/root_metadata.hpp"

namespace warmroot::warm {

class NeededSet {
 public:
  /// The blocks that the volume's snapshot holds, over a device of so many bytes; nullopt while
  /// there is no list. Empty: there will be none.
  using Listed = std::function<std::optional<BlockSet>(std::uint64_t device_bytes)>;
  /// Told why the whole partition is needed, where that was not to be expected.
  using OnNote = std::function<void(std::string)>;

  /// The question is asked with the file system's size as `metadata` knows it by then. `presence`
  /// is told what is not on the list.
  NeededSet(NeededQuestion question, Listed listed, Presence& presence, ListReader& reader,
            RootMetadata& metadata, OnNote on_note)
      : question_(std::move(question)),
        ask_list_(std::move(listed)),
        presence_(presence),
        reader_(reader),
        metadata_(metadata),
        on_note_(std::move(on_note)),
        blocks_(presence.size()) {}
  ~NeededSet() { *question_.unwanted = true; }
  NeededSet(const NeededSet&) = delete;
  NeededSet& operator=(const NeededSet&) = delete;

  /// Asks for the list, unless it is there. What is not on it counts as present at once.
  void take_listed();

  /// What the snapshot holds, where somebody knows it; else what the file system does not call
  /// free. It is asked again each time: sessions write while the warmer reads.
  Result<ReadPump::End> find();

  /// find has finished once.
  bool is_known() const { return known_; }
  /// Of the whole device; none until they are known.
  const BlockSet& blocks() const { return blocks_; }
  /// Beside a list: what the file system uses, where it can tell; else null.
  const BlockSet* used() const { return used_ ? &*used_ : nullptr; }
  /// "snapshot", "fsmap" or "whole"; empty until it is known.
  const std::string& source() const { return source_; }

 private:
  void take_answer(NeededAnswer answer);

  NeededQuestion question_;
  std::future<NeededAnswer> asked_;  // the owner's end waits for one, which ends soon then
  Listed ask_list_;
  Presence& presence_;
  ListReader& reader_;
  RootMetadata& metadata_;
  OnNote on_note_;
  BlockSet blocks_;
  std::optional<BlockSet> listed_;
  std::optional<BlockSet> used_;
  std::string source_;
  bool known_ = false;
};

}  // namespace warmroot::warm
