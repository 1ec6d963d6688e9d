// Reading small things out of tinyxml2 elements; only ec2_decode.cpp and ec2_errors.cpp include
// this. EC2 may leave a list or a text out or send it empty: both read the same here.
#pragma once

#include <tinyxml2.h>

#include <string>

namespace warmroot::aws::xml {

using Element = tinyxml2::XMLElement;

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
