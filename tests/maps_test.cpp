// The two maps that the manager keeps its world in, against std::map.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "bootstrap/base/text_map.hpp"
#include "manager/core/shared_map.hpp"

namespace warmroot {
namespace {

template <typename Map>
std::vector<std::pair<std::string, std::string>> items_of(const Map& map) {
  return {map.begin(), map.end()};
}

/// Few enough names that most are there when they are asked for.
std::string some_name(std::mt19937& random) {
  return (random() % 2 == 0 ? "vol-0" : "a") + std::to_string(random() % 40);
}

TEST(TextMap, does_what_a_map_does) {
  std::mt19937 random(1);
  TextMap map;
  std::map<std::string, std::string> model;
  for (int step = 0; step < 5'000; ++step) {
    const auto name = some_name(random);
    const auto text = std::to_string(step);
    switch (random() % 4) {
      case 0:
        map[name] = text;
        model[name] = text;
        break;
      case 1:
        EXPECT_EQ(map.emplace(name, text).second, model.emplace(name, text).second);
        break;
      default:
        EXPECT_EQ(map.erase(name), model.erase(name));
    }
    ASSERT_EQ(items_of(map), items_of(model));
    EXPECT_EQ(map.contains(text), model.contains(text));
  }
  EXPECT_EQ(map, TextMap(model));
  EXPECT_EQ((TextMap{{"b", "1"}, {"a", "2"}, {"b", "3"}}), (TextMap{{"a", "2"}, {"b", "1"}}));
}

TEST(SharedMap, copies_stay_as_they_were) {
  using Model = std::map<std::string, std::string>;
  std::mt19937 random(2);
  core::SharedMap<std::string> map;
  Model model;
  std::vector<std::pair<core::SharedMap<std::string>, Model>> copies;
  for (int step = 0; step < 5'000; ++step) {
    const auto name = some_name(random);
    const auto text = std::to_string(step);
    switch (random() % 4) {
      case 0:
        map.insert_or_assign(name, text);
        model.insert_or_assign(name, text);
        break;
      case 1:
        map[name] += "+";
        model[name] += "+";
        break;
      default:
        EXPECT_EQ(map.erase(name), model.erase(name));
    }
    if (random() % 50 == 0) copies.emplace_back(map, model);
    ASSERT_EQ(items_of(map), items_of(model));
    const auto other = some_name(random);
    const auto found = map.find(other);
    ASSERT_EQ(found != map.end(), model.contains(other));
    if (found != map.end()) {
      EXPECT_EQ(found->second, model.at(other));
    }
  }
  for (const auto& [copy, was] : copies) EXPECT_EQ(items_of(copy), items_of(was));
}

}  // namespace
}  // namespace warmroot
