// A map by id whose copies share what they hold until one of them is changed. What EC2 showed
// of 10,000 instances goes from the observer to the planner, the report and /status without a copy.
#pragma once

#include <algorithm>
#include <compare>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "manager/core/id_index.hpp"

namespace warmroot::core {

/// Reading is a std::map's; every member that could change something makes this copy its own first,
/// which copies no more than pointers, and then the one item.
template <typename T>
class SharedMap {
 public:
  using value_type = std::pair<const std::string, T>;
  using key_type = std::string;
  using mapped_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = const value_type&;
  using const_reference = const value_type&;

 private:
  using Item = std::shared_ptr<value_type>;
  using Items = std::vector<Item>;
  struct State {
    Items items;  ///< in the order of their keys
    IdIndex<value_type*> index;
  };

 public:
  class const_iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = SharedMap::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type*;
    using reference = const value_type&;

    const_iterator() = default;
    reference operator*() const { return **place_; }
    pointer operator->() const { return place_->get(); }
    const_iterator& operator++() {
      ++place_;
      return *this;
    }
    const_iterator operator++(int) { return const_iterator(place_++); }
    const_iterator& operator--() {
      --place_;
      return *this;
    }
    const_iterator operator--(int) { return const_iterator(place_--); }
    friend bool operator==(const const_iterator&, const const_iterator&) = default;

   private:
    friend SharedMap;
    explicit const_iterator(const Item* place) : place_(place) {}
    const Item* place_ = nullptr;
  };
  using iterator = const_iterator;

  SharedMap() = default;
  SharedMap(std::initializer_list<value_type> items) {
    for (const auto& [key, value] : items) emplace(key, value);
  }

  const_iterator begin() const { return const_iterator(state_->items.data()); }
  const_iterator end() const { return const_iterator(state_->items.data() + state_->items.size()); }
  size_type size() const { return state_->items.size(); }
  bool empty() const { return state_->items.empty(); }
  bool contains(std::string_view key) const { return get(key) != nullptr; }
  size_type count(std::string_view key) const { return contains(key) ? 1 : 0; }
  /// The item's value, or nullptr.
  const T* get(std::string_view key) const {
    const auto* found = state_->index.find(key);
    return found ? &(*found)->second : nullptr;
  }
  const_iterator find(std::string_view key) const {
    return contains(key) ? const_iterator(state_->items.data() + place_of(key)) : end();
  }
  const T& at(std::string_view key) const {
    const T* found = get(key);
    if (!found) throw std::out_of_range("no item of this key");
    return *found;
  }

  T& at(std::string_view key) {
    std::as_const(*this).at(key);
    return (*this)[key];
  }
  T& operator[](std::string_view key) {
    State& state = own();
    const auto place = place_of(key);
    if (!contains(key)) return put(place, key, T{});
    Item& item = state.items[place];
    if (item.use_count() > 1) {
      state.index.remove(key);
      item = std::make_shared<value_type>(*item);
      state.index.add(item->first, item.get());
    }
    return item->second;
  }
  template <typename Value>
  void insert_or_assign(std::string_view key, Value&& value) {
    own();
    if (contains(key))
      (*this)[key] = std::forward<Value>(value);
    else
      put(place_of(key), key, std::forward<Value>(value));
  }
  template <typename Value>
  void emplace(std::string_view key, Value&& value) {
    if (!contains(key)) insert_or_assign(key, std::forward<Value>(value));
  }
  size_type erase(std::string_view key) {
    if (!contains(key)) return 0;
    State& state = own();
    const auto place = state.items.begin() + static_cast<difference_type>(place_of(key));
    const Item kept = std::move(*place);  // `key` may be its own
    state.index.remove(kept->first);
    state.items.erase(place);
    return 1;
  }
  void clear() { state_ = std::make_shared<State>(); }

 private:
  /// Of the item, or where it would be.
  size_type place_of(std::string_view key) const {
    const auto& items = state_->items;
    if (items.empty() || items.back()->first < key) return items.size();
    const auto found =
        std::lower_bound(items.begin(), items.end(), key,
                         [](const Item& item, std::string_view k) { return item->first < k; });
    return static_cast<size_type>(found - items.begin());
  }
  template <typename Value>
  T& put(size_type place, std::string_view key, Value&& value) {
    auto item = std::make_shared<value_type>(std::string(key), std::forward<Value>(value));
    state_->index.add(item->first, item.get());
    const auto at = state_->items.begin() + static_cast<difference_type>(place);
    return (*state_->items.insert(at, std::move(item)))->second;
  }
  State& own() {
    if (state_.use_count() > 1) state_ = std::make_shared<State>(*state_);
    return *state_;
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace warmroot::core
