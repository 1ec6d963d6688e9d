#include "bootstrap/warm/map_keeper.hpp"

#include <system_error>
#include <utility>

#include "bootstrap/warm/map_saves.hpp"
#include "bootstrap/warm/own_threads.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;

/// Saving allocates blocks, which on a cold volume cost first touches of their own. Fewer blocks
/// than this (mostly what sessions and the last save have written) are rather read again.
constexpr std::uint64_t kWorthSaving = 8;

}  // namespace

void MapKeeper::look(const std::string& mount_point, const std::string& map_path,
                     MapIdentity identity) {
  if (std::exchange(has_begun_, true) || mount_point.empty() || map_path.empty()) return;
  identity_ = std::move(identity);
  const std::uint64_t limit = map_bytes(identity_.device_bytes);
  // Where there is no thread to be had, the caller's is one of ours already.
  look_ = std::async(std::launch::async | std::launch::deferred, [mount_point, map_path, limit] {
    enlist_own_thread();
    Found found;
    auto file = VolumeFile::at(mount_point, map_path, "the warm map");
    if (!file) {
      found.note = file.error().message();
      return found;
    }
    auto bytes = file->load(limit);
    if (bytes)
      found.bytes = std::move(*bytes);
    else
      found.note = bytes.error().message();
    found.file = std::move(*file);
    return found;
  });
}

bool MapKeeper::has_looked(milliseconds time) const {
  return !look_.valid() || look_.wait_for(time) != std::future_status::timeout;
}

std::optional<BlockSet> MapKeeper::take() {
  if (!look_.valid()) return std::nullopt;
  Found found = look_.get();
  if (!found.note.empty()) on_note_(found.note);
  file_ = std::move(found.file);
  if (!found.bytes) return std::nullopt;
  auto present = decode_map(*found.bytes, identity_);
  if (!present) {
    on_note_(present.error().message());
    return std::nullopt;
  }
  exists_ = true;
  return std::move(*present);
}

void MapKeeper::disbelieve() {
  exists_ = false;
  unsaved_ = kWorthSaving;
}

void MapKeeper::keep_up(SteadyClock::time_point now,
                        std::optional<SteadyClock::time_point> at_rest_since,
                        const Presence& presence) {
  take_saved(false);
  if (!file_ || saving_.valid() || unsaved_ < kWorthSaving) return;
  std::optional<SteadyClock::duration> rest;
  if (at_rest_since) rest = now - *at_rest_since;
  if (!is_time_to_save(now - last_save_, rest)) return;
  last_save_ = now;
  start_saving(presence);
}

/// On another thread: an fsync into a cold file system takes as long as dozens of reads.
void MapKeeper::start_saving(const Presence& presence) {
  unsaved_ = 0;
  exists_ = true;
  auto save = [file = *file_, bytes = encode_map(identity_, presence.worth_keeping())] {
    enlist_own_thread();  // the caller's is one of ours already
    return file.save(bytes);
  };
  try {
    saving_ = std::async(std::launch::async, save);
  } catch (const std::system_error&) {  // no thread to be had: then it takes its time here
    std::promise<Ok> done;
    saving_ = done.get_future();
    done.set_value(save());
  }
}

void MapKeeper::take_saved(bool wait) {
  if (!saving_.valid()) return;
  if (!wait && saving_.wait_for(milliseconds(0)) != std::future_status::ready) return;
  if (auto saved = saving_.get(); !saved) {
    on_note_("the warm map was not saved: " + saved.error().message());
    unsaved_ += kWorthSaving;
  }
}

bool MapKeeper::save_now(const Presence& presence) {
  const bool was_saving = saving_.valid();
  take_saved(true);
  if (!file_ || unsaved_ == 0 || (exists_ && unsaved_ < kWorthSaving)) return was_saving;
  start_saving(presence);
  take_saved(true);
  return true;
}

}  // namespace warmroot::warm
