#include "bootstrap/status.hpp"

#include <tuple>
#include <utility>

#include "bootstrap/base/log.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/metrics.hpp"

namespace warmroot::bootstrap {

StatusBook::StatusBook(std::string file, std::string metrics_file, std::chrono::milliseconds rest)
    : file_(std::move(file)),
      metrics_file_(std::move(metrics_file)),
      started_ms_(boottime_ms()),
      rest_ms_(rest.count()) {}

void StatusBook::update(const std::function<void(Status&)>& change) {
  const std::lock_guard lock(mutex_);
  const auto told = std::make_pair(status_.stage, status_.message);
  change(status_);
  const bool is_news =
      std::tie(status_.stage, status_.message) != std::tie(told.first, told.second);
  if (is_news || !written_ms_ || now_ms() - *written_ms_ >= rest_ms_) write_locked();
}

void StatusBook::write() {
  const std::lock_guard lock(mutex_);
  write_locked();
}

Status StatusBook::snapshot() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::int64_t StatusBook::now_ms() const {
  return boottime_ms() - started_ms_;
}

void StatusBook::record(TimedStep step) {
  log_event(step.outcome == Outcome::failed ? LogLevel::warning : LogLevel::info, "step",
            {{"name", step.name},
             {"outcome", to_string(step.outcome)},
             {"ms", std::to_string(step.ms)},
             {"detail", step.detail}});
  update([&](Status& status) { status.steps.push_back(std::move(step)); });
  if (heard_) heard_();
}

void StatusBook::forget_steps_after(std::size_t count) {
  update([&](Status& status) {
    if (status.steps.size() > count) status.steps.resize(count);
  });
}

Result<std::string> StatusBook::timed(const std::string& name,
                                      const std::function<Result<std::string>()>& work) {
  TimedStep step;
  step.name = name;
  step.start_ms = now_ms();
  auto result = work();
  step.ms = now_ms() - step.start_ms;
  step.outcome = result ? Outcome::ok : Outcome::failed;
  step.detail = result ? *result : result.error().message();
  record(std::move(step));
  return result;
}

void StatusBook::write_locked() {
  written_ms_ = now_ms();
  // A full /run must not stop the machine from working; the next write tries again.
  if (!file_.empty()) [[maybe_unused]]
    const Ok written = write_file_atomic(file_, status_document(status_), 0644);
  if (!metrics_file_.empty()) [[maybe_unused]]
    const Ok written = write_file_atomic(metrics_file_, metrics_text(status_), 0644);
}

}  // namespace warmroot::bootstrap
