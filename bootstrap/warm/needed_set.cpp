#include "bootstrap/warm/needed_set.hpp"

#include <chrono>
#include <future>
#include <vector>

namespace warmroot::warm {

void NeededSet::take_listed() {
  if (listed_ || !ask_list_) return;
  const std::uint64_t device_bytes = question_.geometry.device_bytes;
  listed_ = ask_list_(device_bytes);
  if (!listed_) return;
  CHECK(listed_->size() == presence_.size());
  BlockSet device(presence_.size());
  device.insert_range({0, device_bytes});
  presence_.leave_out(device.difference(*listed_));
}

Result<ReadPump::End> NeededSet::find() {
  take_listed();
  question_.geometry.fs_bytes = metadata_.filesystem_bytes();
  asked_ = find_needed_beside(question_);
  const std::vector<Block> tables = metadata_.take_tables();
  TRY_ASSIGN(const auto end, reader_.read(tables, [this] {
    return asked_.wait_for(std::chrono::milliseconds(0)) != std::future_status::timeout;
  }));
  if (end != ReadPump::End::finished) return end;
  take_answer(asked_.get());
  return end;
}

void NeededSet::take_answer(NeededAnswer answer) {
  take_listed();  // it may have come while the file system was asked
  source_ = listed_ ? "snapshot" : answer.source;
  used_.reset();
  if (!listed_) {
    blocks_ = std::move(answer.blocks);
    if (!answer.note.empty()) on_note_(answer.note);
  } else {
    blocks_ = *listed_;
    if (answer.source == "fsmap") used_ = std::move(answer.blocks);
  }
  known_ = true;
}

}  // namespace warmroot::warm
