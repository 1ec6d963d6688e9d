// Reading small things out of tinyxml2 elements; only ec2_decode.cpp and ec2_errors.cpp include
// this. EC2 may leave a list or a text out or send it empty: both read the same here.
#pragma once

#include <tinyxml2.h>

#include <string>
#include <string_view>

namespace warmroot::aws::xml {

using Element = tinyxml2::XMLElement;

/// A document takes four times its text in memory. The largest answer that EC2 gives, 1,000
/// instances, is about 8 MB.
inline constexpr std::size_t kMostXmlBytes = std::size_t{16} << 20;

/// False for what is no XML, too large, or too deep (tinyxml2 ends at 500 levels).
inline bool parse(tinyxml2::XMLDocument& document, std::string_view text) {
  return text.size() <= kMostXmlBytes &&
         document.Parse(text.data(), text.size()) == tinyxml2::XML_SUCCESS;
}

inline const Element* child(const Element* parent, const char* name) {
  return parent == nullptr ? nullptr : parent->FirstChildElement(name);
}

inline std::string text_of(const Element* element) {
  const char* text = element == nullptr ? nullptr : element->GetText();
  return text == nullptr ? std::string{} : std::string(text);
}

inline std::string text(const Element* parent, const char* name) {
  return text_of(child(parent, name));
}

}  // namespace warmroot::aws::xml
