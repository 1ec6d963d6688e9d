// The format of ~/.aws/config and ~/.aws/credentials. Pure: text in, sections out.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"

namespace warmroot::aws {

using AwsSection = std::map<std::string, std::string>;
/// Sections by name, as written but for white space and quotes: "default", "profile research",
/// "services local".
using AwsIni = std::map<std::string, AwsSection>;

/// Parses as the AWS CLI does: comments (# and ; at the start of a line or behind white space),
/// CRLF, a byte order mark, `=` or `:` between key and value, keys in any case (kept in lower
/// case), `[profile "a name"]`, and lines that are indented more than their key: behind an empty
/// value they are a nested block (`ec2 =` followed by `endpoint_url = x` becomes the key
/// "ec2.endpoint_url"), else they continue the value. A repeated section is merged, a repeated key
/// takes its last value. Errors: misconfigured with the line's number, never with its text, which
/// may be a secret.
Result<AwsIni> parse_aws_ini(std::string_view text);

}  // namespace warmroot::aws
