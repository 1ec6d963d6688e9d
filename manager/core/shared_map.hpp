// A std::map by id whose copies share what they hold until one of them is changed. What EC2 showed
// of 10,000 instances goes from the observer to the planner, the report and /status without a copy.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace warmroot::core {

/// Reading is a std::map's; every member that could change something makes this copy its own first.
template <typename T>
class SharedMap {
 public:
  using Map = std::map<std::string, T>;
  using value_type = typename Map::value_type;
  using key_type = std::string;
  using mapped_type = T;
  using const_iterator = typename Map::const_iterator;
  using iterator = const_iterator;
  using size_type = typename Map::size_type;
  using const_reference = const value_type&;

  SharedMap() = default;
  SharedMap(std::initializer_list<value_type> items) : map_(std::make_shared<Map>(items)) {}

  const_iterator begin() const { return map_->begin(); }
  const_iterator end() const { return map_->end(); }
  size_type size() const { return map_->size(); }
  bool empty() const { return map_->empty(); }
  bool contains(const std::string& key) const { return map_->contains(key); }
  size_type count(const std::string& key) const { return map_->count(key); }
  const_iterator find(const std::string& key) const { return map_->find(key); }
  const T& at(const std::string& key) const { return map_->at(key); }

  T& at(const std::string& key) { return own().at(key); }
  T& operator[](const std::string& key) { return own()[key]; }
  template <typename Value>
  void insert_or_assign(const std::string& key, Value&& value) {
    own().insert_or_assign(key, std::forward<Value>(value));
  }
  template <typename... Values>
  void emplace(Values&&... values) {
    own().emplace(std::forward<Values>(values)...);
  }
  size_type erase(const std::string& key) { return contains(key) ? own().erase(key) : 0; }
  void clear() { map_ = std::make_shared<Map>(); }

 private:
  Map& own() {
    if (map_.use_count() > 1) map_ = std::make_shared<Map>(*map_);
    return *map_;
  }

  std::shared_ptr<Map> map_ = std::make_shared<Map>();
};

}  // namespace warmroot::core
