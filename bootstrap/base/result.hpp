// Errors as values. Result<T> is what every fallible function of both programs returns; Error says what the caller
// can do about it. The alias below is the only mention of tl::, so that a move to std::expected is one line.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace warmroot {

/// What the caller can do about an error.
enum class ErrorKind {
  retry_later,      ///< transient: the same request may succeed later
  gone,             ///< the thing named does not exist (any more)
  refused,          ///< understood and denied; the same request will be denied again
  unauthorised,     ///< credentials or permissions
  misconfigured,    ///< the operator's input has to change
  unknown_outcome,  ///< it may or may not have happened
  broken,           ///< a bug or a broken peer
};

/// The kind as one snake_case word, for logs and JSON.
std::string_view to_string(ErrorKind kind);

/// A failure. `context` is outermost first ("mounting vol-1: ext4: bad superblock"); `code` is errno's name or EC2's
/// code, `request_id` EC2's, both empty where there is none.
struct Error {
  ErrorKind kind = ErrorKind::broken;
  std::string context;
  std::string code;
  std::string request_id;

  /// The same error with "outer: " in front of its context.
  Error within(std::string_view outer) &&;

  /// One line for people: context, code and request id.
  std::string message() const;
};

template <typename T>
using Result = tl::expected<T, Error>;

/// Success without a value.
using Ok = Result<void>;

/// Wraps an error for returning: `return fail(ErrorKind::gone, "no such node");`
inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}
inline tl::unexpected<Error> fail(ErrorKind kind, std::string context, std::string code = {}) {
  return tl::unexpected<Error>(Error{kind, std::move(context), std::move(code), {}});
}

/// The present errno as an error: "context: No such file or directory", code "ENOENT". Kind is gone for
/// ENOENT/ENODEV/ENXIO, refused for EACCES/EPERM/EBUSY, retry_later for EAGAIN/EINTR/ETIMEDOUT, else broken.
Error errno_error(std::string context, int error_number);
tl::unexpected<Error> fail_errno(std::string context);

[[noreturn]] inline void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "warmroot: CHECK(%s) failed at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace warmroot

/// A promise the code makes to itself; stays on in release builds.
#define CHECK(expression) \
  ((expression) ? (void)0 : ::warmroot::check_failed(#expression, __FILE__, __LINE__))

/// Evaluates a Result and returns its error from the enclosing function; the value is dropped.
#define TRY(expression)                                                                      \
  do {                                                                                       \
    if (auto try_result = (expression); !try_result)                                         \
      return ::warmroot::fail(std::move(try_result).error());                                \
  } while (false)

#define WARMROOT_CONCAT_INNER(a, b) a##b
#define WARMROOT_CONCAT(a, b) WARMROOT_CONCAT_INNER(a, b)
#define TRY_ASSIGN_IMPL(temporary, target, expression)                   \
  auto temporary = (expression);                                         \
  if (!temporary) return ::warmroot::fail(std::move(temporary).error()); \
  target = std::move(*temporary)
/// `TRY_ASSIGN(auto text, read_file(path));` declares or assigns from a Result, or returns its error.
#define TRY_ASSIGN(target, expression) \
  TRY_ASSIGN_IMPL(WARMROOT_CONCAT(try_result_, __LINE__), target, expression)
