// A decoded EC2 Query form: `Name=value&...` with EC2's numbered lists, and typed reading of its
// values. Used by the Query front and its actions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/region_model.hpp"

namespace warmroot::sim {

class Form {
 public:
  /// Decodes a form body or query string: `+` and `%20` are spaces. Errors: MalformedQueryString.
  static Answer<Form> parse(std::string_view text);

  static Form of(std::map<std::string, std::string> values);

  const std::map<std::string, std::string>& values() const { return values_; }
  bool has(const std::string& name) const { return values_.contains(name); }
  /// The value, or an empty text.
  std::string text(const std::string& name) const;
  Answer<std::optional<int>> integer(const std::string& name) const;
  /// Errors: InvalidParameterValue unless true or false. Absent is `otherwise`.
  Answer<bool> boolean(const std::string& name, bool otherwise = false) const;
  Answer<std::string> required(const std::string& name) const;

  /// `Name.1`, `Name.2`, ... in numerical order.
  std::vector<std::string> list(const std::string& name) const;
  /// The prefixes `Name.1`, `Name.2`, ... under which there is any parameter, in numerical order.
  std::vector<std::string> elements(const std::string& name) const;

  /// Tags of one resource type in `TagSpecification.N`, where `allowed` are the types this call
  /// takes. Errors: InvalidParameterValue.
  Answer<Tags> tag_specification(const std::string& type,
                                 const std::vector<std::string>& allowed) const;

  /// All parameters but the client token, as one text: what "the same request" means.
  std::string fingerprint() const;

 private:
  std::map<std::string, std::string> values_;
};

/// Of a filter or a numbered list.
using Values = std::vector<std::string>;
bool contains(const Values& list, const std::string& text);

/// RFC 3986 decoding; `+` is a space. nullopt when a percent sign is not followed by two hex
/// digits.
std::optional<std::string> url_decode(std::string_view text);

/// Strict base64 (padding required, white space ignored); nullopt when malformed.
std::optional<std::string> base64_decode(std::string_view text);
std::string base64_encode(std::string_view bytes);

}  // namespace warmroot::sim
