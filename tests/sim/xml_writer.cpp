// See the header.
#include "tests/sim/xml_writer.hpp"

namespace warmroot::sim {

std::string xml_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\r':
        out += "&#13;";
        break;
      default:
        // XML 1.0 has no way to carry other control characters.
        if (static_cast<unsigned char>(letter) >= 0x20 || letter == '\n' || letter == '\t')
          out += letter;
    }
  }
  return out;
}

void XmlWriter::indent() {
  out_.append(4 * open_.size(), ' ');
}

void XmlWriter::open(std::string_view name, std::string_view attributes) {
  indent();
  out_ += "<" + std::string(name);
  if (!attributes.empty()) out_ += " " + std::string(attributes);
  out_ += ">\n";
  open_.emplace_back(name);
}

void XmlWriter::close() {
  const std::string name = std::move(open_.back());
  open_.pop_back();
  indent();
  out_ += "</" + name + ">\n";
}

void XmlWriter::text(std::string_view name, std::string_view value) {
  if (value.empty()) return empty(name);
  indent();
  out_ += "<" + std::string(name) + ">" + xml_escape(value) + "</" + std::string(name) + ">\n";
}

void XmlWriter::number(std::string_view name, std::int64_t value) {
  text(name, std::to_string(value));
}

void XmlWriter::flag(std::string_view name, bool value) {
  text(name, value ? "true" : "false");
}

void XmlWriter::empty(std::string_view name) {
  indent();
  out_ += "<" + std::string(name) + "/>\n";
}

}  // namespace warmroot::sim
