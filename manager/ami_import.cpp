#include "manager/ami_import.hpp"

#include <algorithm>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/paging.hpp"
#include "manager/core/backoff.hpp"
#include "manager/core/pool_source.hpp"

namespace warmroot::manager {

namespace {

using Stage = core::ImportStep::Stage;

constexpr int kPage = 200;

/// Between launches that EC2 refuses for now: its bucket is shared with those of `serve`.
constexpr Milliseconds kLaunchAgain{2'000};
constexpr Milliseconds kLaunchAgainAtMost{60'000};

aws::DescribeRequest tagged(const core::ImportWish& wish) {
  aws::DescribeRequest request;
  request.filters = {{std::string("tag:") + core::kTagImport, {wish.ami}},
                     {std::string("tag:") + core::kTagDeployment, {wish.deployment}}};
  request.max_results = kPage;
  return request;
}

bool may_pass(const Error& error) {
  return error.kind == ErrorKind::retry_later || error.kind == ErrorKind::unknown_outcome;
}

bool token_is_used_up(const Error& error) {
  const auto code = aws::bare_code(error.code);
  return code == "IdempotentInstanceTerminated" || code == "IdempotentParameterMismatch";
}

}  // namespace

bool goes_on(Stage stage) {
  return stage == Stage::launching || stage == Stage::cleaning || stage == Stage::snapshotting ||
         stage == Stage::ending;
}

AmiImport::AmiImport(aws::Ec2& ec2, core::ImportWish wish, Instant now)
    : ec2_(ec2), wish_(std::move(wish)) {
  memory_.started = now;
}

Ok AmiImport::look_at_source(core::ImportView& view) {
  aws::DescribeRequest request;
  request.ids = {wish_.ami};
  const auto images = ec2_.describe_images(request);
  if (!images && may_pass(images.error())) return fail(images.error());
  if (images)
    for (const auto& image : images->items)
      if (image.image_id == wish_.ami) view.image.found = image;
  if (!view.image.found) {
    view.image.error = wish_.ami +
                       " is no AMI that this account can see in this Region: correct it, or have "
                       "it shared";
    return {};
  }
  const auto snapshot = core::root_snapshot_of(*view.image.found);
  if (snapshot.empty()) return {};
  request.ids = {snapshot};
  const auto snapshots = ec2_.describe_snapshots(request);
  if (!snapshots && may_pass(snapshots.error())) return fail(snapshots.error());
  view.snapshot_usable = snapshots && !snapshots->items.empty();
  return {};
}

Result<core::ImportView> AmiImport::look() {
  if (!source_) {
    core::ImportView view;
    TRY(look_at_source(view));
    source_ = view;
  }
  core::ImportView view = *source_;
  TRY_ASSIGN(view.instances, aws::collect_all(ec2_, &aws::Ec2::describe_instances, tagged(wish_)));
  auto snapshots = tagged(wish_);
  snapshots.owners = {"self"};
  TRY_ASSIGN(view.snapshots, aws::collect_all(ec2_, &aws::Ec2::describe_snapshots, snapshots));
  return view;
}

Result<std::string> AmiImport::terms() {
  TRY(look());
  if (!source_->image.found) return fail(ErrorKind::misconfigured, source_->image.error);
  return core::import_terms(wish_, *source_->image.found);
}

Ok AmiImport::send(const core::ImportStep& step, Instant now) {
  if (std::holds_alternative<aws::CreateSnapshot>(*step.call)) memory_.snapshot_asked = now;
  const std::vector<aws::EncodedCall> calls{aws::encode(*step.call)};
  const auto answers = ec2_.send(calls);
  why_waiting_.clear();
  const bool launches = std::holds_alternative<aws::RunInstances>(*step.call);
  if (answers.front()) {
    if (launches) launches_refused_ = 0;
    return {};
  }
  const Error& error = answers.front().error();
  if (may_pass(error)) {  // the next look tells, and the same call goes out again
    why_waiting_ = error.message();
    if (launches)
      launch_again_ =
          now + core::backoff_delay(++launches_refused_, kLaunchAgain, kLaunchAgainAtMost, 1);
    return {};
  }
  if (launches && token_is_used_up(error)) {
    ++memory_.tokens_used_up;
    return {};
  }
  return fail(error);
}

bool AmiImport::waits_to_launch(const core::ImportStep& step, Instant now) const {
  return std::holds_alternative<aws::RunInstances>(*step.call) && now < launch_again_;
}

/// Whether the account may do what the instance is for, as soon as that can be asked.
void AmiImport::try_snapshot(const core::ImportView& view) {
  const auto* instance = core::live_instance(wish_, view);
  const auto volume = instance ? core::root_volume_of(*instance) : std::string();
  if (snapshot_tried_ || volume.empty() || !view.snapshots.empty()) return;
  const Ok allowed = ec2_.dry_run(aws::CreateSnapshot{
      volume,
      "warmroot import of " + wish_.ami,
      {{core::kTagDeployment, wish_.deployment}, {core::kTagImport, wish_.ami}}});
  if (!allowed && may_pass(allowed.error())) return;
  snapshot_tried_ = true;
  snapshot_denied_ = !allowed && allowed.error().kind == ErrorKind::unauthorised;
}

/// Its end is asked for until EC2 shows it.
core::ImportStep AmiImport::end_for_nothing() const {
  core::ImportStep step;
  if (left_behind_.empty()) {
    step.stage = Stage::failed;
    step.text =
        "ec2:CreateSnapshot is not allowed, which an import needs: add what "
        "iam-policy-optional.json has for it, with its CreateTags; the instance is ended";
    return step;
  }
  step.stage = Stage::ending;
  step.call = aws::TerminateInstances{{left_behind_}};
  step.text = left_behind_ + " to end, as ec2:CreateSnapshot is not allowed";
  return step;
}

Result<core::ImportStep> AmiImport::look_ahead(Instant now) {
  TRY_ASSIGN(const auto view, look());
  return core::next_import_step(wish_, view, memory_, now);
}

Result<core::ImportStep> AmiImport::step(Instant now) {
  auto view = look();
  if (!view) {
    if (!may_pass(view.error())) return fail(view.error());
    core::ImportStep step;
    step.text = "EC2 to answer (" + view.error().message() + ")";
    return step;
  }
  const auto* live = core::live_instance(wish_, *view);
  left_behind_ = live ? live->instance_id : "";
  if (!memory_.over_before) memory_.over_before = core::instances_over(wish_, *view);
  try_snapshot(*view);
  const bool cleans = std::any_of(
      view->instances.begin(), view->instances.end(),
      [](const aws::Instance& each) { return each.state == aws::InstanceState::running; });
  if (cleans && memory_.cleaning_since == Instant{}) memory_.cleaning_since = now;
  auto step =
      snapshot_denied_ ? end_for_nothing() : core::next_import_step(wish_, *view, memory_, now);
  if (step.call && !waits_to_launch(step, now)) TRY(send(step, now));
  if (goes_on(step.stage) && !why_waiting_.empty()) step.text += "; EC2 says: " + why_waiting_;
  return step;
}

}  // namespace warmroot::manager
