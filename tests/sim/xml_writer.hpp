// Writes the XML of EC2's answers: nested elements, two spaces of indentation, escaped text. Used
// by the Query front.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace warmroot::sim {

/// How an answer may differ in shape without meaning anything else.
struct XmlShape {
  enum class EmptyLists {
    as_usual,  ///< some empty, some left out, as seen on EC2's wire
    left_out,  ///< no list without elements is written
    written,   ///< tagSet too is written when it is empty
  };
  EmptyLists empty_lists = EmptyLists::as_usual;
  std::uint64_t shuffle = 0;  ///< seed of a random order of every element's members; 0: none
};

/// Whether an element of that name holds a list in EC2's answers.
bool names_list(std::string_view name);

class XmlWriter {
 public:
  XmlWriter() = default;
  explicit XmlWriter(const XmlShape& shape) : shape_(shape), random_(shape.shuffle) {}
  /// Opens an element; `attributes` is written as it is.
  void open(std::string_view name, std::string_view attributes = {});
  void close();
  void text(std::string_view name, std::string_view value);
  void number(std::string_view name, std::int64_t value);
  void flag(std::string_view name, bool value);
  /// An element without content.
  void empty(std::string_view name);
  std::string take() { return std::move(out_); }
  const XmlShape& shape() const { return shape_; }

 private:
  struct Opened {
    std::string name;
    std::size_t begin;                  ///< of its start tag
    std::size_t content;                ///< behind its start tag
    std::vector<std::size_t> children;  ///< where each begins
  };
  void child();
  void shuffle(const Opened& element);
  void indent();
  XmlShape shape_;
  std::mt19937_64 random_{0};
  std::string out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  std::vector<Opened> open_;
};

/// & < > " and control characters as XML wants them in text.
std::string xml_escape(std::string_view text);

}  // namespace warmroot::sim
