// See the header.
#include "manager/aws/json_error.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace warmroot::aws {

std::string bare_error_type(std::string type) {
  if (const auto hash = type.find('#'); hash != std::string::npos) type.erase(0, hash + 1);
  type.erase(std::min(type.find(':'), type.size()));
  return type;
}

bool is_denial(const std::string& type) {
  static const std::set<std::string> kDenied = {"AccessDenied",
                                                "AccessDeniedException",
                                                "InvalidClientTokenId",
                                                "SignatureDoesNotMatch",
                                                "UnrecognizedClientException",
                                                "InvalidSignatureException",
                                                "AuthFailure",
                                                "ExpiredToken",
                                                "ExpiredTokenException",
                                                "RequestExpired",
                                                "MissingAuthenticationToken",
                                                "MissingAuthenticationTokenException",
                                                "OptInRequired",
                                                "IncompleteSignatureException"};
  return kDenied.contains(type);
}

std::string text_of(const nlohmann::json& object, const char* member) {
  const auto found = object.is_object() ? object.find(member) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace warmroot::aws
