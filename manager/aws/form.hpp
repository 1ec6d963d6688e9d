// Percent encoding as AWS wants it, and the `key=value&...` form bodies of EC2's Query protocol.
// Pure; used by sigv4, by the codec, and by whoever has to read a body again (error texts, the
// simulated region).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warmroot::aws {

using Form = std::vector<std::pair<std::string, std::string>>;

/// Every byte outside `A-Za-z0-9-._~` as %XX (upper case). A space is %20, never '+'.
std::string percent_encode(std::string_view text);

/// The same, with the bytes of `also_plain` left as they are.
std::string percent_encode(std::string_view text, std::string_view also_plain);

/// Undoes %XX, and '+' as a space. A '%' without two hex digits stays as it is.
std::string percent_decode(std::string_view text);

/// `a=1&b=2` from pairs, in their order.
std::string encode_form(const Form& form);

/// Pairs of a form body in their order, decoded. A part without '=' has an empty value.
Form parse_form(std::string_view text);

/// The value of the first pair with this key, or empty.
std::string_view form_value(const Form& form, std::string_view key);

}  // namespace warmroot::aws
