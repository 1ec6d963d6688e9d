// Texts by name, as a few tags are: a sorted piece of memory. Of a dozen entries a search through
// it is shorter than a walk down a std::map's nodes, and a copy is one allocation.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warmroot {

/// A std::map<std::string, std::string> in what it does, but that adding and removing end all
/// iterators, and that names are not to be changed through them.
class TextMap {
 public:
  using key_type = std::string;
  using mapped_type = std::string;
  using value_type = std::pair<std::string, std::string>;
  using Items = std::vector<value_type>;
  using iterator = Items::iterator;
  using const_iterator = Items::const_iterator;
  using size_type = Items::size_type;
  using difference_type = Items::difference_type;
  using reference = value_type&;
  using const_reference = const value_type&;

  TextMap() = default;
  TextMap(std::initializer_list<value_type> items) {
    items_.reserve(items.size());
    insert(items.begin(), items.end());
  }

  TextMap(const std::map<std::string, std::string>& items) : items_(items.begin(), items.end()) {}

  iterator begin() { return items_.begin(); }
  iterator end() { return items_.end(); }
  const_iterator begin() const { return items_.begin(); }
  const_iterator end() const { return items_.end(); }
  size_type size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }

  iterator find(std::string_view name) { return items_.begin() + place_of(name); }
  const_iterator find(std::string_view name) const { return items_.begin() + place_of(name); }
  bool contains(std::string_view name) const { return find(name) != end(); }
  size_type count(std::string_view name) const { return contains(name) ? 1 : 0; }
  const std::string& at(std::string_view name) const {
    const auto found = find(name);
    if (found == end()) throw std::out_of_range("no text of this name");
    return found->second;
  }

  std::string& operator[](std::string_view name) {
    return emplace(name, std::string_view()).first->second;
  }
  std::pair<iterator, bool> emplace(std::string_view name, std::string_view text) {
    const auto place = std::lower_bound(
        items_.begin(), items_.end(), name,
        [](const value_type& item, std::string_view wanted) { return item.first < wanted; });
    if (place != items_.end() && place->first == name) return {place, false};
    return {items_.insert(place, value_type(name, text)), true};
  }
  std::pair<iterator, bool> try_emplace(std::string_view name, std::string_view text) {
    return emplace(name, text);
  }
  std::pair<iterator, bool> insert(const value_type& item) {
    return emplace(item.first, item.second);
  }
  template <typename Iterator>
  void insert(Iterator first, Iterator last) {
    for (; first != last; ++first) emplace(first->first, first->second);
  }
  void insert_or_assign(std::string_view name, std::string text) {
    (*this)[name] = std::move(text);
  }
  size_type erase(std::string_view name) {
    const auto found = find(name);
    if (found == end()) return 0;
    items_.erase(found);
    return 1;
  }
  iterator erase(iterator place) { return items_.erase(place); }
  void clear() { items_.clear(); }

  template <typename Condition>
  friend size_type erase_if(TextMap& map, Condition condition) {
    return std::erase_if(map.items_, condition);
  }

  friend bool operator==(const TextMap&, const TextMap&) = default;
  friend auto operator<=>(const TextMap&, const TextMap&) = default;

 private:
  /// Names of other lengths are passed over without a look at their letters.
  difference_type place_of(std::string_view name) const {
    const auto found = std::find_if(items_.begin(), items_.end(), [&](const value_type& item) {
      return item.first.size() == name.size() && item.first == name;
    });
    return found - items_.begin();
  }

  Items items_;
};

}  // namespace warmroot
