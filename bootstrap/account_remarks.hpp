// What people have less by the base's accounts, which sshd goes by, than by the volume's: no
// session, or one without some of their groups. Pure.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/accounts.hpp"

namespace warmroot::bootstrap {

/// For AccountEdit::without_groups: those groups that rules of sudo, sockets, devices and logs of
/// usual systems go by, and whose numbers the sessions do not have. `edit` has its files and its
/// session_users.
std::vector<std::string> groups_left_out(const AccountFiles& volume, const AccountEdit& edit);

/// For the remarks, one sentence: who gets no session for that, and what would help. sshd tells
/// them nothing but "Permission denied". Empty: nobody.
std::string remark_on_left_out(const std::vector<std::string>& left_out);

/// The same of AccountEdit::without_groups. sudo tells them that they are not in its file.
std::string remark_on_groups(const std::vector<std::string>& without_groups);

}  // namespace warmroot::bootstrap
