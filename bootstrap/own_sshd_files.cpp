#include "bootstrap/own_sshd_files.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "bootstrap/base/words.hpp"

namespace warmroot::bootstrap {
namespace {

/// PATH_MAX, with its end.
constexpr std::size_t kMostPathBytes = 4096;

/// Takes the first line off the text; without its end.
std::string_view cut_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

void add_path(std::vector<std::string>& paths, std::string path) {
  if (path.size() < kMostPathBytes && paths.size() <= kMostNamedFiles)
    paths.push_back(std::move(path));
}

/// The first words of a line of sshd_config(5), so many: parted by blanks and, behind the keyword,
/// by "="; quotes hold together, and a backslash stays with the byte behind it.
std::vector<std::string> words_of_setting(std::string_view line, std::size_t most) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool parts = c == ' ' || c == '\t' || c == '\r' || (c == '=' && words.size() <= 1);
    if (quote == 0 && parts) {
      in_word = false;
      continue;
    }
    if (quote == 0 && c == '#' && !in_word) break;
    if (!std::exchange(in_word, true)) {
      if (words.size() == most) break;
      words.emplace_back();
    }
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      words.back() += c;
      if (c == '\\' && i + 1 < line.size()) words.back() += line[++i];
    }
  }
  return words;
}

/// Keywords whose first word is a file that sshd reads when it starts or at a login.
bool names_a_file(std::string_view keyword) {
  constexpr std::string_view kKeywords[] = {"banner",     "hostcertificate", "hostkey",
                                            "modulifile", "revokedkeys",     "trustedusercakeys"};
  return std::find(std::begin(kKeywords), std::end(kKeywords), keyword) != std::end(kKeywords);
}

/// The first three words, by blanks alone.
std::vector<std::string> words_of_pam(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string> words;
  while (words.size() < 3) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty()) break;
    words.emplace_back(line.substr(0, line.find_first_of(kBlanks)));
    line.remove_prefix(words.back().size());
  }
  return words;
}

/// "@include common-auth", which Debian's has, or "auth substack password-auth"; else empty.
std::string included_by_pam(std::string_view line) {
  const auto words = words_of_pam(line);
  if (words.size() > 1 && lower(words[0]) == "@include") return words[1];
  if (words.size() < 3 || words[0].starts_with('#')) return {};
  const std::string control = lower(words[1]);
  return control == "include" || control == "substack" ? words[2] : std::string();
}

}  // namespace

NamedFiles files_of_sshd_config(std::string_view text) {
  NamedFiles files;
  while (!text.empty()) {
    const auto words = words_of_setting(cut_line(text), kMostNamedFiles + 2);
    if (words.size() < 2) continue;
    const std::string keyword = lower(words[0]);
    if (names_a_file(keyword) && words[1].starts_with('/')) add_path(files.read, words[1]);
    if (keyword != "include") continue;
    for (std::size_t i = 1; i < words.size(); ++i)
      add_path(files.included, words[i].starts_with('/') ? words[i] : "/etc/ssh/" + words[i]);
  }
  return files;
}

std::vector<std::string> files_of_pam(std::string_view text) {
  std::vector<std::string> files;
  std::string line;
  while (!text.empty()) {
    line += cut_line(text);
    if (line.ends_with('\\') && !text.empty()) {
      line.back() = ' ';
      continue;
    }
    if (const std::string name = included_by_pam(line); !name.empty())
      for (std::string& place : places_of_pam_file(name)) add_path(files, std::move(place));
    line.clear();
  }
  return files;
}

std::vector<std::string> places_of_pam_file(const std::string& name) {
  if (name.starts_with('/')) return {name};
  return {"/etc/pam.d/" + name, "/usr/lib/pam.d/" + name};
}

bool is_glob(std::string_view part) {
  return part.find_first_of("*?[\\") != part.npos;
}

bool glob_may_match(std::string_view part, std::string_view name) {
  // glob(7): no wildcard stands for it.
  if (name.starts_with('.') && !part.starts_with('.') && !part.starts_with('\\')) return false;
  const std::size_t unsure = part.find_first_of("[\\");
  std::string pattern(part.substr(0, unsure));
  if (unsure != part.npos) pattern += '*';
  std::size_t at = 0, star = pattern.npos, behind_star = 0;
  for (std::size_t i = 0; i < name.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      behind_star = i;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == name[i])) {
      ++at;
      ++i;
    } else if (star != pattern.npos) {  // it stands for one byte more
      at = star + 1;
      i = ++behind_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == pattern.npos;
}

}  // namespace warmroot::bootstrap
