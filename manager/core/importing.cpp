#include "manager/core/importing.hpp"

#include <algorithm>
#include <cstdio>

#include "manager/core/draft.hpp"
#include "manager/core/pool_source.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

using Stage = ImportStep::Stage;

/// On-demand, us-east-1, Linux, USD an hour (AWS price list); minutes are what boot, cleaning and
/// the snapshot of a few GiB take.
struct Host {
  const char* architecture;
  const char* type;
  double usd_hour;
};
constexpr Host kHosts[] = {{"x86_64", "t3.medium", 0.0416}, {"arm64", "t4g.medium", 0.0336}};
constexpr int kHostMinutes = 5;
/// Snapshot storage, us-east-1 (AWS price list).
constexpr double kSnapshotUsdGibMonth = 0.05;

const Host* host_for(const aws::Image& image) {
  const auto* found = std::find_if(std::begin(kHosts), std::end(kHosts), [&](const Host& host) {
    return image.architecture == host.architecture;
  });
  return found == std::end(kHosts) ? nullptr : found;
}

int root_size_gib(const aws::Image& image) {
  for (const auto& mapping : image.mappings)
    if (mapping.device_name == image.root_device_name) return mapping.volume_size_gib;
  return 0;
}

ImportStep ended(Stage stage, std::string text) {
  ImportStep step;
  step.stage = stage;
  step.text = std::move(text);
  return step;
}

/// Empty: it may be imported.
std::string why_not(const ImportWish& wish, const aws::Image& image) {
  if (!image.product_codes.empty())
    return "AMI " + wish.ami + " carries the Marketplace product code " +
           image.product_codes.front() +
           ": EC2 attaches its volumes to stopped instances only, so it cannot be used; choose an "
           "AMI without one";
  if (image.state != "available")
    return "AMI " + wish.ami + " is " + image.state + ", not available: wait or name another one";
  if (root_snapshot_of(image).empty())
    return "AMI " + wish.ami + " has no root snapshot: name an AMI whose root is an EBS volume";
  if (wish.instance_type.empty() && !host_for(image))
    return "AMI " + wish.ami + " is " + image.architecture +
           ", for which no small instance type is known: name one with --type";
  return {};
}

bool is_over(const aws::Instance& instance) {
  return instance.state == aws::InstanceState::terminated ||
         instance.state == aws::InstanceState::shutting_down;
}

ImportStep launch(const ImportWish& wish, const ImportView& view, const ImportMemory& memory) {
  const auto& image = *view.image.found;
  const auto over = std::count_if(view.instances.begin(), view.instances.end(), is_over);
  aws::RunInstances call;
  call.image_id = wish.ami;
  call.instance_type = wish.instance_type.empty() ? host_for(image)->type : wish.instance_type;
  call.subnet_id = wish.subnet;
  call.user_data = import_user_data();
  call.spot = false;
  call.stop_on_shutdown = true;
  for (const auto& mapping : image.mappings) {
    if (mapping.delete_on_termination) continue;
    aws::NewBlockDevice device;  // or its disk would be paid for when the instance is long gone
    device.device_name = mapping.device_name;
    device.volume_type.clear();
    device.delete_on_termination = true;
    call.block_devices.push_back(std::move(device));
  }
  call.instance_tags = {{kTagDeployment, wish.deployment},
                        {kTagImport, wish.ami},
                        {"Name", "warmroot import of " + wish.ami}};
  call.volume_tags = {{kTagImport, wish.ami}, {"Name", "warmroot import of " + wish.ami}};
  call.client_token = client_token({wish.deployment, "ImportAmi", "", wish.ami,
                                    static_cast<int>(over) + memory.tokens_used_up, wish.subnet});
  ImportStep step;
  step.stage = Stage::launching;
  step.text = "EC2 to launch " + wish.ami + " on a " + call.instance_type;
  step.call = std::move(call);
  return step;
}

aws::Mutation end_of(const aws::Instance& instance) {
  return aws::TerminateInstances{{instance.instance_id}};
}

ImportStep snapshot(const ImportWish& wish, const aws::Instance& instance,
                    const ImportMemory& memory, Instant now) {
  ImportStep step;
  step.stage = Stage::snapshotting;
  step.text = "the snapshot of " + instance.instance_id + "'s root to begin";
  // An earlier run, or an attempt without an answer, may have asked for it already.
  const Instant asked = std::max(memory.started, memory.snapshot_asked.value_or(Instant::min()));
  if (now < asked + kSnapshotVisibility) return step;
  const auto volume = root_volume_of(instance);
  if (volume.empty())
    return ended(Stage::failed, "instance " + instance.instance_id +
                                    " has no root volume any more: run the import again");
  step.call = aws::CreateSnapshot{volume,
                                  "warmroot import of " + wish.ami,
                                  {{kTagDeployment, wish.deployment},
                                   {kTagImport, wish.ami},
                                   {"Name", "warmroot import of " + wish.ami}}};
  return step;
}

/// It did not power itself off, which says that it is clean: somebody stopped it, or its host did.
bool stopped_from_outside(const aws::Instance& instance) {
  return !instance.state_reason_code.empty() &&
         instance.state_reason_code != "Client.InstanceInitiatedShutdown";
}

ImportStep give_up(const aws::Instance& instance, const std::string& why) {
  ImportStep step = ended(Stage::failed, why);
  step.call = end_of(instance);
  return step;
}

bool is_own(const ImportWish& wish, const aws::Instance& instance) {
  return is_own_token(wish.deployment, instance.client_token);
}

/// This run has seen it live, or has launched it: another one would end in the same way.
const aws::Instance* ended_early(const ImportWish& wish, const ImportView& view,
                                 const ImportMemory& memory) {
  if (!memory.over_before) return nullptr;
  for (const auto& instance : view.instances)
    if (is_over(instance) && is_own(wish, instance) &&
        !memory.over_before->contains(instance.instance_id))
      return &instance;
  return nullptr;
}

ImportStep tell_early_end(const aws::Instance& instance) {
  const auto& reason = instance.state_reason_code;
  std::string text = "instance " + instance.instance_id + " ended before its root was snapshotted" +
                     (reason.empty() ? "" : " (" + reason + ")");
  if (reason == "Client.InternalError")
    text += ": its disk is encrypted by a key that this account may not use; have the key shared";
  return ended(Stage::failed,
               text + "; nothing of it is left, run the import again to launch anew");
}

ImportStep go_on(const ImportWish& wish, const aws::Instance& instance, const ImportMemory& memory,
                 Instant now) {
  using enum aws::InstanceState;
  switch (instance.state) {
    case stopped:
      if (stopped_from_outside(instance))
        return give_up(instance, "instance " + instance.instance_id +
                                     " was stopped from outside before it was clean; it is ended, "
                                     "run the import again");
      return snapshot(wish, instance, memory, now);
    case running:
      if (memory.cleaning_since != Instant{} && now - memory.cleaning_since >= kCleaningPatience)
        return give_up(instance,
                       "instance " + instance.instance_id + " has not powered itself off in " +
                           std::to_string(kCleaningPatience.count() / 60'000) +
                           " minutes, so the AMI does not run user-data and was not cleaned; it "
                           "is ended, choose an AMI with cloud-init");
      return ended(Stage::cleaning, instance.instance_id + " to boot, clean itself and power off");
    default:
      return ended(Stage::cleaning,
                   instance.instance_id +
                       (instance.state == stopping ? " to have powered off" : " to start"));
  }
}

/// The completed one before all; of several the first by id, so that each run chooses the same.
const aws::Snapshot* best_snapshot(const ImportView& view) {
  const aws::Snapshot* best = nullptr;
  const auto rank = [](const aws::Snapshot& snapshot) {
    return std::make_pair(snapshot.state != "completed", snapshot.snapshot_id);
  };
  for (const auto& each : view.snapshots)
    if (!best || rank(each) < rank(*best)) best = &each;
  return best;
}

ImportStep with_snapshot(const ImportWish& wish, const ImportView& view,
                         const aws::Snapshot& taken) {
  const auto* instance = live_instance(wish, view);
  ImportStep step;
  step.snapshot_id = taken.snapshot_id;
  if (taken.state == "error") {
    step.stage = Stage::failed;
    step.text = "snapshot " + taken.snapshot_id +
                " failed at EC2: delete it and run the import "
                "again";
    return step;
  }
  if (taken.state != "completed") {
    step.stage = Stage::snapshotting;
    step.text = "snapshot " + taken.snapshot_id + " (" + taken.state + ")";
    return step;
  }
  if (instance) {
    step.stage = Stage::ending;
    step.text = instance->instance_id + " to end";
    step.call = end_of(*instance);
    return step;
  }
  step.stage = Stage::done;
  step.text = "AMI " + wish.ami + " is imported: write snapshot = \"" + taken.snapshot_id +
              "\" in place of ami in the spec";
  for (const auto& each : view.snapshots)
    if (each.snapshot_id != taken.snapshot_id)
      step.text +=
          "; snapshot " + each.snapshot_id + " of the same import is not needed, delete it";
  return step;
}

}  // namespace

std::string root_volume_of(const aws::Instance& instance) {
  for (const auto& device : instance.block_devices)
    if (device.device_name == instance.root_device_name) return device.volume_id;
  return {};
}

const aws::Instance* live_instance(const ImportWish& wish, const ImportView& view) {
  for (const auto& instance : view.instances)
    if (!is_over(instance) && is_own(wish, instance)) return &instance;
  return nullptr;
}

std::set<std::string> instances_over(const ImportWish& wish, const ImportView& view) {
  std::set<std::string> ids;
  for (const auto& instance : view.instances)
    if (is_over(instance) && is_own(wish, instance)) ids.insert(instance.instance_id);
  return ids;
}

ImportStep next_import_step(const ImportWish& wish, const ImportView& view,
                            const ImportMemory& memory, Instant now) {
  if (const auto* taken = best_snapshot(view)) return with_snapshot(wish, view, *taken);
  if (const auto* instance = live_instance(wish, view)) return go_on(wish, *instance, memory, now);
  if (const auto* gone = ended_early(wish, view, memory)) return tell_early_end(*gone);
  if (!view.image.found) return ended(Stage::refused, view.image.error);
  if (view.snapshot_usable) {
    auto step = ended(Stage::done, "");
    step.snapshot_id = root_snapshot_of(*view.image.found);
    step.text = "AMI " + wish.ami + " needs no import: this account may use its snapshot " +
                step.snapshot_id + ", write ami = \"" + wish.ami + "\" in the spec";
    return step;
  }
  if (const auto reason = why_not(wish, *view.image.found); !reason.empty())
    return ended(Stage::refused, reason);
  return launch(wish, view, memory);
}

std::string import_terms(const ImportWish& wish, const aws::Image& image) {
  const auto* host = host_for(image);
  const int size = root_size_gib(image);
  char price[64];
  std::snprintf(price, sizeof price, "about %.3f USD",
                host && wish.instance_type.empty() ? host->usd_hour * kHostMinutes / 60 : 0.0);
  char storage[64];
  std::snprintf(storage, sizeof storage, "%.2f USD", kSnapshotUsdGibMonth * size);
  const bool priced = host && wish.instance_type.empty();
  return "this launches one " + (priced ? host->type : wish.instance_type) +
         " on demand for about " + std::to_string(kHostMinutes) + " minutes (" +
         (priced ? price : "at its hourly price") + "), and keeps a snapshot of up to " +
         std::to_string(size) + " GiB (at most " + storage +
         " a month; prices of us-east-1); it can be interrupted and run again at any time";
}

std::string import_user_data() {
  return R"(#!/bin/sh
# warmroot: this instance exists once, to take a snapshot of its root. What makes it this very
# machine is removed after cloud-init has written its last state; then it powers off.
cat > /run/warmroot-clean <<'CLEAN'
#!/bin/sh
command -v cloud-init >/dev/null 2>&1 && timeout 300 cloud-init status --wait >/dev/null 2>&1
cloud-init clean --logs >/dev/null 2>&1
# systemd would write both once more on its way down.
journalctl --relinquish-var >/dev/null 2>&1
systemctl stop systemd-random-seed.service >/dev/null 2>&1
rm -rf /var/lib/cloud/* /var/log/cloud-init*.log
rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub
[ -e /etc/machine-id ] && : > /etc/machine-id
rm -f /var/lib/dbus/machine-id /var/lib/systemd/random-seed
rm -f /root/.ssh/authorized_keys /home/*/.ssh/authorized_keys
rm -f /root/.bash_history /home/*/.bash_history /var/log/wtmp /var/log/btmp /var/log/lastlog
rm -rf /var/log/journal/* /var/lib/amazon/ssm/i-* /var/lib/dhcp/* /var/lib/dhclient/*
sync
poweroff || shutdown -h now || halt -p
CLEAN
if command -v systemd-run >/dev/null 2>&1; then
  systemd-run --no-block --unit=warmroot-clean sh /run/warmroot-clean
else
  setsid sh /run/warmroot-clean >/dev/null 2>&1 < /dev/null &
fi
)";
}

}  // namespace warmroot::core
