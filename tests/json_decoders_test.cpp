// Every JSON that the manager and the bootstrap read, held to the same table of bad input: cut off
// anywhere, nested a hundred thousand deep, padded up to what its transport lets through, and with
// each member of each wrong type. Each is read or refused with a sentence, and soon. What the
// decoders make of good input is the business of their own tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/json_decoders.hpp"

namespace warmroot {
namespace {

using nlohmann::json;

constexpr int kNested = 100'000;
/// CPU time of one decoding, under the address sanitizer; most take milliseconds.
constexpr double kMostSeconds = 20;
/// A sentence is for people.
constexpr std::size_t kLongestSentence = 600;

/// "" and every member below.
void pointers_in(const json& value, const std::string& at, std::vector<std::string>& found) {
  found.push_back(at);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) {
      std::string escaped;
      for (const char c : key) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      pointers_in(member, at + "/" + escaped, found);
    }
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i)
      pointers_in(value[i], at + "/" + std::to_string(i), found);
}

/// Two of each type: what is empty is not what has something in it.
const std::vector<json>& of_every_type() {
  static const std::vector<json> values = {nullptr,
                                           true,
                                           false,
                                           -1,
                                           0,
                                           1.5,
                                           1e300,
                                           18'446'744'073'709'551'615U,
                                           "",
                                           "text",
                                           json::array(),
                                           json::array({json::array({1})}),
                                           json::object(),
                                           {{"a", {{"b", nullptr}}}}};
  return values;
}

bool same_type(const json& one, const json& other) {
  return one.type() == other.type() || (one.is_number_integer() && other.is_number_integer());
}

std::string nested(int depth, const char* open, const char* close, const char* inside) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += inside;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

class JsonDecoder : public ::testing::TestWithParam<Decoder> {
 protected:
  /// Decodes, and holds whatever comes of it to what is asked of all.
  Outcome decode(const std::string& text, const std::string& what) {
    const std::clock_t began = std::clock();
    const Outcome outcome = GetParam().decode(text);
    EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, kMostSeconds) << what;
    EXPECT_LE(outcome.why.size(), kLongestSentence) << what;
    if (!outcome.read && !GetParam().lenient) {
      EXPECT_NE(outcome.why, "") << what;
    }
    return outcome;
  }
  void expect_refused(const std::string& text, const std::string& what) {
    EXPECT_FALSE(decode(text, what).read) << what << " is taken for good";
  }
};

TEST_P(JsonDecoder, reads_what_is_good) {
  const auto outcome = decode(GetParam().good, "the good one");
  EXPECT_TRUE(outcome.read) << outcome.why;
}

TEST_P(JsonDecoder, refuses_whatever_is_cut_off) {
  std::string good = GetParam().good;
  while (good.ends_with('\n')) good.pop_back();
  for (std::size_t size = GetParam().empty_is_good ? 1 : 0; size < good.size(); ++size)
    expect_refused(good.substr(0, size), "the first " + std::to_string(size) + " bytes");
}

TEST_P(JsonDecoder, refuses_what_is_nested_a_hundred_thousand_deep) {
  expect_refused(std::string(kNested, '['), "100,000 brackets");
  expect_refused(nested(kNested, "[", "]", ""), "100,000 brackets that are closed");
  expect_refused(nested(kNested, "{\"a\":", "", ""), "100,000 braces");
}

TEST_P(JsonDecoder, bears_depth_in_place_of_every_member) {
  const json good = json::parse(GetParam().good);
  std::vector<std::string> pointers;
  pointers_in(good, "", pointers);
  for (const int depth : {200, 8'000, 32'000, kNested}) {
    for (const auto& pointer : pointers) {
      json changed = good;
      changed[json::json_pointer(pointer)] = "@@";
      std::string text = changed.dump();
      text.replace(text.find("\"@@\""), 4, nested(depth, "[", "]", "0"));
      const auto outcome = decode(text, pointer + " nested " + std::to_string(depth));
      if (GetParam().strict.contains(pointer)) {
        EXPECT_FALSE(outcome.read) << pointer;
      }
    }
    json more = good;
    more["zz"] = "@@";
    std::string text = more.dump();
    text.replace(text.find("\"@@\""), 4, nested(depth, "{\"a\":", "}", "0"));
    decode(text, "a member that nobody knows, nested " + std::to_string(depth));
  }
}

TEST_P(JsonDecoder, bears_padding_up_to_what_its_transport_lets_through) {
  const std::size_t most = std::min(GetParam().most_bytes, std::size_t{100} << 20);
  const std::string& good = GetParam().good;
  decode("{" + std::string(most - good.size(), ' ') + good.substr(1), "spaces");
  std::string text = "{\"zz\":\"";
  text.append(most - good.size() - text.size() - 2, 'x');
  decode(text + "\"," + good.substr(1), "a long member that nobody knows");
}

TEST_P(JsonDecoder, refuses_or_overlooks_members_of_a_wrong_type) {
  const json good = json::parse(GetParam().good);
  std::vector<std::string> pointers;
  pointers_in(good, "", pointers);
  for (const auto& strict : GetParam().strict)
    EXPECT_TRUE(good.contains(json::json_pointer(strict))) << "the good one has no " << strict;
  for (const auto& pointer : pointers)
    for (const auto& value : of_every_type()) {
      const json::json_pointer at(pointer);
      json changed = good;
      changed[at] = value;
      const std::string what = pointer + " = " + value.dump();
      const auto outcome = decode(changed.dump(), what);
      const bool wrong = !same_type(good[at], value);
      const bool tolerated = value.is_null() && GetParam().may_be_null.contains(pointer);
      if (wrong && !tolerated && GetParam().strict.contains(pointer)) {
        EXPECT_FALSE(outcome.read) << what << " is taken for good";
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, JsonDecoder, ::testing::ValuesIn(all_decoders()),
                         [](const auto& decoder) { return std::string(decoder.param.name); });

}  // namespace
}  // namespace warmroot
