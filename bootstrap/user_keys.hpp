// The authorized keys of the volume's people, where the base's sshd reads them. Files of root's:
// who may log in is the volume's to say, and nobody in a session changes them but by their own file
// in the volume, which is followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/in_root.hpp"

namespace warmroot::bootstrap {

/// publish and follow may be called by one thread while another withdraws. Who has publish
/// cancelled before that need not wait for it: it lets nobody in any more.
class UserKeys {
 public:
  /// Lets `users` in with the keys that the volume has for them and `launch_key` (may be empty).
  /// For after sessions land in the volume: before, the keys would open the base. Ends early when
  /// cancelled: whoever is in by then is warned by the release.
  Ok publish(const RootDirectory& volume, const std::vector<User>& users,
             const std::string& launch_key, const Cancelled& cancelled);
  /// A key that somebody has added or taken away in a session counts from now on. Looks at 200
  /// people at most, the next ones at the next call.
  void follow(const RootDirectory& volume, const Cancelled& cancelled);
  /// Closes that door. For before sessions land on the base again.
  void withdraw();

 private:
  struct Person {
    User user;
    std::string seen;  ///< what their file in the volume was when it was read
  };
  Ok write(const RootDirectory& volume, Person& person,
           const std::set<std::uint32_t>& groups_of_one);

  std::mutex mutex_;  ///< held while a file is written, never while the volume is read
  bool open_ = false;
  std::vector<Person> people_;  ///< publish's and follow's
  std::string launch_key_;
  std::size_t next_ = 0;
};

/// The same door, left open by another process.
void withdraw_user_keys();

}  // namespace warmroot::bootstrap
