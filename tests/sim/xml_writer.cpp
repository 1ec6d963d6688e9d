// See the header.
#include "tests/sim/xml_writer.hpp"

#include <array>

namespace warmroot::sim {

namespace {

constexpr auto kToEscape = [] {
  std::array<bool, 256> to_escape{};
  for (std::size_t byte = 0; byte < 0x20; ++byte) to_escape[byte] = true;
  for (const char letter : {'&', '<', '>', '"'}) to_escape[static_cast<std::size_t>(letter)] = true;
  return to_escape;
}();

/// Most text has nothing to escape.
bool is_plain(std::string_view text) {
  bool any = false;
  for (const char letter : text) any |= kToEscape[static_cast<unsigned char>(letter)];
  return !any;
}

}  // namespace

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

bool names_list(std::string_view name) {
  return name.ends_with("Set") || name == "productCodes" || name == "blockDeviceMapping" ||
         name == "availabilityZoneInfo" || name == "launchTemplates" || name == "details" ||
         name == "successful" || name == "unsuccessful";
}

void XmlWriter::indent() {
  out_.append(4 * open_.size(), ' ');
}

void XmlWriter::child() {
  const bool plain = shape_.shuffle == 0 && shape_.empty_lists == XmlShape::EmptyLists::written;
  if (!plain && !open_.empty()) open_.back().children.push_back(out_.size());
}

void XmlWriter::open(std::string_view name, std::string_view attributes) {
  child();
  const std::size_t begin = out_.size();
  indent();
  out_.append("<").append(name);
  if (!attributes.empty()) out_.append(" ").append(attributes);
  out_.append(">\n");
  open_.push_back({std::string(name), begin, out_.size(), {}});
}

/// Members in a random order; the lists' elements too, as EC2 sorts nothing.
void XmlWriter::shuffle(const Opened& element) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < element.children.size(); ++at) {
    const std::size_t end =
        at + 1 < element.children.size() ? element.children[at + 1] : out_.size();
    parts.push_back(out_.substr(element.children[at], end - element.children[at]));
  }
  // Not std::shuffle: its result may differ between standard libraries.
  for (std::size_t at = parts.size(); at > 1; --at) std::swap(parts[at - 1], parts[random_() % at]);
  out_.resize(element.content);
  for (const auto& part : parts) out_ += part;
}

void XmlWriter::close() {
  const Opened element = std::move(open_.back());
  open_.pop_back();
  if (element.children.empty() && shape_.empty_lists == XmlShape::EmptyLists::left_out &&
      names_list(element.name)) {
    out_.resize(element.begin);
    if (!open_.empty()) open_.back().children.pop_back();
    return;
  }
  if (shape_.shuffle != 0 && element.children.size() > 1) shuffle(element);
  indent();
  out_.append("</").append(element.name).append(">\n");
}

void XmlWriter::text(std::string_view name, std::string_view value) {
  if (value.empty()) return empty(name);
  child();
  indent();
  out_.append("<").append(name).append(">");
  if (is_plain(value))
    out_.append(value);
  else
    out_.append(xml_escape(value));
  out_.append("</").append(name).append(">\n");
}

void XmlWriter::number(std::string_view name, std::int64_t value) {
  text(name, std::to_string(value));
}

void XmlWriter::flag(std::string_view name, bool value) {
  text(name, value ? "true" : "false");
}

void XmlWriter::empty(std::string_view name) {
  if (shape_.empty_lists == XmlShape::EmptyLists::left_out && names_list(name)) return;
  child();
  indent();
  out_.append("<").append(name).append("/>\n");
}

}  // namespace warmroot::sim
