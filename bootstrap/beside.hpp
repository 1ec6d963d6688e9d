// A program that runs beside this one, in a session of its own: started, and how it ended in words.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

struct Beside {
  std::vector<std::string> words;
  std::vector<std::string> variables;  ///< beside PATH
  int root = -1;                       ///< a directory that is its root; -1: the base's
  int log = -1;                        ///< gets its output
  /// Mount points whose trees it does not see, and nobody else misses: no symbolic link counts.
  std::vector<std::string> unmounted;
  /// Where, behind `unmounted`, a symbolic link would lead it elsewhere on the base.
  std::vector<std::string> no_links{};
  /// Behind those: where it opens what is no regular file on the base.
  std::vector<std::string> regular_files{};
};
/// Starts it. It gets SIGTERM when the calling thread ends. Where nothing is mounted at one of
/// `unmounted` it ends with 127 instead: what was to be hidden would be elsewhere. So it does, and
/// says why on its log, where a link is at one of `no_links`, or anything but a regular file at one
/// of `regular_files`; where nothing is it goes on. All that is looked at by the new process: a
/// disk that does not answer holds up nobody else. Errors: errno's.
Result<pid_t> start_beside(Beside program);

/// "ended with 1", "was killed by signal 9": of a wait status.
std::string end_in_words(int status);

}  // namespace warmroot::bootstrap
