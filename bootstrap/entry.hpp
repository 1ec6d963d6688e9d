// How sessions get into a mounted volume, behind one interface. bring_up prepares an entry, tries
// its logins and opens it (one login of `chroot` may be tried behind that, and is waited for with
// the entry closed where it is late); the daemon looks after it; release closes it, ends what it
// runs and takes back what it changed. Between sessions and the base stands nothing else, so that
// other ways to boot the volume (soft-reboot, another root) have their place here beside the
// container.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {

/// For programs of the volume that run before sessions do. A login shell touches some hundred
/// blocks, in an emulated guest at half a second of CPU time.
inline constexpr std::chrono::milliseconds kProbeLimit{std::chrono::seconds(90)};
/// For what an entry runs to end where nothing else says how long it may take.
inline constexpr std::chrono::milliseconds kEndLimit{std::chrono::seconds(10)};

struct EntryInput {
  std::string launch_key;  ///< the key that the instance was launched with; may be empty
  Cancelled cancelled;     ///< may be empty
};

/// Each call may follow any other: an entry that was opened half-way is closed, ended and undone
/// like one that serves. check may be called by another thread than the rest, and open may still be
/// at work there when it is closed by who has cancelled it before: it leads nobody in any more.
class Entry {
 public:
  virtual ~Entry() = default;

  /// An sshd of the base opens the sessions, with the base's accounts.
  virtual bool by_base_sshd() const = 0;
  /// New sessions land in the volume only by an sshd of the base that has read our configuration:
  /// one that ran before that was written leads them to the base until it is started anew.
  virtual bool waits_for_base_sshd() const = 0;
  /// Who lets sessions in, one sentence for `status`.
  virtual std::string describe() const = 0;

  /// Gets ready what sessions need. Nobody gets in by it. Returns a detail for the timeline.
  virtual Result<std::string> prepare(const EntryInput& input) = 0;
  /// For after prepare: the first of them has to get in, the others should.
  virtual std::vector<LoginTrial> logins() const = 0;
  /// New sessions land in the volume from now on, and none is refused meanwhile. Returns a detail
  /// for the timeline. Requires: a thread that lives as long as this process. Errors: why they
  /// cannot, one sentence; they may be half-way, close takes them back. Once it was open and
  /// closed, it is for check's thread, when check succeeds and pause is empty, or for any while
  /// nobody calls check.
  virtual Result<std::string> open(const EntryInput& input) = 0;
  /// Whether new sessions land in the volume, or would, where it was closed; put right where that
  /// is possible. Cheap, but where an sshd has to be started anew. Errors: why not, one sentence.
  virtual Ok check() = 0;
  /// Why new sessions land on the base for a while although check found nothing wrong, one
  /// sentence; empty while they land in the volume. For check's thread.
  virtual std::string pause() const { return {}; }

  /// What the operator should know of how people get in, one sentence; empty: nothing. For after
  /// open.
  virtual std::string remark() const { return {}; }

  /// What people have changed in the volume about how they log in counts from now on. Waits for the
  /// volume: for a thread of its own, after open and until it is to be unmounted.
  virtual void follow_people(const Cancelled&) {}

  /// New sessions land on the base from now on, where the banner tells them why; those that are in
  /// the volume stay.
  Ok close() { return close_to("/"); }
  /// The same, to this directory of the base; kNowhere: they are refused.
  virtual Ok close_to(const std::string& directory) = 0;
  /// Whether sessions end with what the entry itself runs: people are warned before.
  virtual bool holds_sessions() const = 0;
  /// Whether a process on the volume is the entry's own, and no session's.
  virtual bool runs(pid_t process) const = 0;
  /// Ends what the entry itself runs in the volume; what has not ended when the limit has passed is
  /// killed. Where it does not hold sessions they stay: whoever wants the volume free ends all that
  /// holds it. Returns a detail for the timeline.
  virtual Result<std::string> end(std::chrono::milliseconds limit) = 0;
  /// Takes back what was changed on the base, also by a process that is gone. For after the
  /// unmount.
  virtual Ok undo() = 0;
};

/// A second sshd of the base, for what the one that runs cannot do any more: read its configuration
/// or its host keys anew.
struct SecondSshd {
  std::string program;               ///< empty: none is wanted
  std::vector<std::uint16_t> ports;  ///< that it takes over
  bool node_host_keys = false;       ///< it may show the node's
};
/// The base's sshd with ChrootDirectory. Where a second one is wanted and cannot be had, the first
/// lets people in as far as it can, and describe says so.
std::shared_ptr<Entry> chroot_entry(SecondSshd second = {});

/// The volume's own sshd, run in its root, which takes the base's `ports` over.
std::shared_ptr<Entry> sshd_entry(std::vector<std::uint16_t> ports);

/// The same, run by the volume's own init in a container of systemd-nspawn.
std::shared_ptr<Entry> nspawn_entry(std::vector<std::uint16_t> ports);

}  // namespace warmroot::bootstrap
