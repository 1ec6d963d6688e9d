// A lease on a real volume whose hot list is recorded, for tests of that: it is mounted, read as a
// session would, and given back.
#pragma once

#include <chrono>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bootstrap/paths.hpp"
#include "bootstrap/recording.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "bootstrap/warm/recorder.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::bootstrap {

inline const Recording::Recorded kToNobody = [](const std::string&, bool, const Recording::Taken&) {
};

class RecordingTest : public warm::WarmerTest {
 protected:
  void SetUp() override {
    warm::WarmerTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    make_image(0);
    attach({});
  }

  /// Mounts, reads the files as a session would, and gives everything back.
  std::vector<warm::Block> lease(const std::vector<std::string>& files) {
    notes.clear();
    Recording recording([this](const std::string& note) { notes.push_back(note); },
                        [this](std::string list, bool, const Recording::Taken& taken) {
                          recorded = std::move(list);
                          taken(others_take_it);
                        });
    recording.start(disk_loop_.device());
    mount_root();
    recording.made_from("vol-0abc", "snap-0a1");
    recording.mounted(root().string(), 0, volume, filesystem);
    if (somebody_comes) begin_session(recording);
    for (const auto& file : files)
      EXPECT_TRUE(warm::shell("cat " + root().string() + file + " > /dev/null"));
    const auto hot = recording.hot_blocks(warm::kFsBytes);
    EXPECT_TRUE(recording.finish(std::chrono::seconds(20)));
    kept = read_list();
    unmount();
    return hot;
  }

  /// Sessions may begin, and somebody starts a shell of the volume's.
  void begin_session(Recording& recording) const {
    recording.logins_tried();
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * warm::kRecordPollMs));
    EXPECT_TRUE(warm::shell("cd " + root().string() +
                            " && { test -e d9/bash || cp d9/29 d9/bash; } && chmod +x d9/bash && "
                            "cat d9/bash > /dev/null"));
  }

  std::optional<warm::HotList> read_list() {
    std::ifstream file(root() / kVolumeHotList, std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    auto list = warm::decode_hot_list(bytes.str());
    return list ? std::optional(std::move(*list)) : std::nullopt;
  }

  std::set<std::string> paths() const {
    std::set<std::string> paths;
    if (kept)
      for (const auto& range : kept->ranges) paths.insert(range.path);
    return paths;
  }

  std::string volume = "vol-0abc", filesystem = "1cd5-01";
  bool somebody_comes = true;
  bool others_take_it = true;
  std::vector<std::string> notes;
  std::string recorded;
  std::optional<warm::HotList> kept;
};

}  // namespace warmroot::bootstrap
