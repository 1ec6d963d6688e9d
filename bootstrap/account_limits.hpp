// What keeps people of the volume from the base's account files: ids, names and homes that are
// somebody's there, or worth something. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/accounts.hpp"

namespace warmroot::bootstrap {

/// login.defs of every supported distribution: people's accounts; below are the system's, above
/// nobody's.
inline constexpr std::uint32_t kFirstPersonId = 1000;
inline constexpr std::uint32_t kLastPersonId = 59999;
/// "users", the one group of people below 1000, everybody's primary group on SUSE.
inline constexpr std::uint32_t kUsersGroup = 100;

inline bool is_person(std::uint32_t id) {
  return id >= kFirstPersonId && id <= kLastPersonId;
}

/// Why membership in a group of that name is worth something on a base, whatever gid a volume gives
/// it; nullptr where it is not.
const char* worth_on_base(std::string_view group_name);

/// Names whose sessions land on the base: their entries are the operator's way in.
std::set<std::string> base_members(const AccountFiles& base);

/// The first name of each gid, as getgrgid finds it.
std::map<std::uint32_t, std::string> names_by_gid(const std::vector<Group>& groups);

/// What speaks against people of the volume.
struct TakenOnBase {
  std::map<std::uint32_t, User> users;                 ///< the first of each uid, as getpwuid does
  std::map<std::uint32_t, std::string> groups;         ///< names by gid
  std::map<std::uint32_t, std::string> volume_groups;  ///< likewise, of the volume
  std::set<std::string> trusted;                       ///< whom its privileged groups list
  std::set<std::uint32_t> operators;                   ///< uids whose sessions land on the base
  std::set<std::string> roots;                         ///< who may be root on the volume
};

TakenOnBase taken_on_base(const AccountFiles& base, const AccountFiles& volume);

/// Why a user of the volume gets no base entry with the volume's ids, for behind their name; empty
/// when nothing speaks against it. An id is a person: two names for one let the volume's do what
/// the base's may, which is nothing new to who may be root on the volume, and to nobody else given.
std::string why_not_on_base(const User& user, const TakenOnBase& taken);

}  // namespace warmroot::bootstrap
