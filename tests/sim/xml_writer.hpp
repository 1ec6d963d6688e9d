// Writes the XML of EC2's answers: nested elements, two spaces of indentation, escaped text. Used
// by the Query front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warmroot::sim {

class XmlWriter {
 public:
  /// Opens an element; `attributes` is written as it is.
  void open(std::string_view name, std::string_view attributes = {});
  void close();
  void text(std::string_view name, std::string_view value);
  void number(std::string_view name, std::int64_t value);
  void flag(std::string_view name, bool value);
  /// An element without content.
  void empty(std::string_view name);
  std::string take() { return std::move(out_); }

 private:
  void indent();
  std::string out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  std::vector<std::string> open_;
};

/// & < > " and control characters as XML wants them in text.
std::string xml_escape(std::string_view text);

}  // namespace warmroot::sim
