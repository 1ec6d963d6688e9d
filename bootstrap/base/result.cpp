#include "bootstrap/base/result.hpp"

#include <cerrno>
#include <cstring>

namespace warmroot {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::retry_later: return "retry_later";
    case ErrorKind::gone: return "gone";
    case ErrorKind::refused: return "refused";
    case ErrorKind::unauthorised: return "unauthorised";
    case ErrorKind::misconfigured: return "misconfigured";
    case ErrorKind::unknown_outcome: return "unknown_outcome";
    case ErrorKind::broken: return "broken";
  }
  return "broken";
}

Error Error::within(std::string_view outer) && {
  context = std::string(outer) + ": " + context;
  return std::move(*this);
}

std::string Error::message() const {
  std::string text = context;
  if (!code.empty()) text += " (" + code + ")";
  if (!request_id.empty()) text += " [request " + request_id + "]";
  return text;
}

namespace {

ErrorKind kind_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENODEV:
    case ENXIO: return ErrorKind::gone;
    case EACCES:
    case EPERM:
    case EBUSY: return ErrorKind::refused;
    case EAGAIN:
    case EINTR:
    case ETIMEDOUT: return ErrorKind::retry_later;
    default: return ErrorKind::broken;
  }
}

}  // namespace

Error errno_error(std::string context, int error_number) {
  const char* name = strerrorname_np(error_number);
  const char* text = strerrordesc_np(error_number);
  return {kind_of_errno(error_number), std::move(context) + ": " + (text ? text : "unknown error"),
          name ? name : std::to_string(error_number), {}};
}

tl::unexpected<Error> fail_errno(std::string context) {
  const int error_number = errno;
  return fail(errno_error(std::move(context), error_number));
}

}  // namespace warmroot
