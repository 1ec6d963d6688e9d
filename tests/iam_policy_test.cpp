// The IAM policies of templates/: every ARN in them becomes another partition's by the one
// replacement that the README gives, and nothing else in them is one partition's alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "manager/aws/partition.hpp"

namespace warmroot {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPartitions[] = {"aws",       "aws-cn",    "aws-eusc",  "aws-iso",
                                       "aws-iso-b", "aws-iso-e", "aws-iso-f", "aws-us-gov"};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// What `sed 's/arn:aws:/arn:ID:/g'` does.
std::string of_partition(std::string text, const std::string& id) {
  const std::string from = "arn:aws:", to = "arn:" + id + ":";
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// All texts of a document, with "" in the place of a partition's id.
void collect(const json& value, std::vector<std::string>& texts,
             std::set<std::string>& partitions) {
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    const auto arn = aws::split_arn(text);
    if (text.starts_with("arn:")) {
      ASSERT_FALSE(arn.service.empty()) << text;
      partitions.emplace(arn.partition);
      texts.push_back("arn:" + text.substr(text.find(':', 4)));
      return;
    }
    texts.push_back(text);
  } else {
    for (const auto& item : value) collect(item, texts, partitions);
  }
}

class IamPolicy : public testing::TestWithParam<const char*> {
 protected:
  std::string policy = text_of(std::string(WARMROOT_TEMPLATES_DIR) + "/" + GetParam());
};

TEST_P(IamPolicy, is_every_partitions_but_for_the_prefix_of_its_arns) {
  std::vector<std::string> own;
  std::set<std::string> partitions;
  collect(json::parse(policy), own, partitions);
  EXPECT_THAT(partitions, testing::ElementsAre("aws"));
  EXPECT_GT(own.size(), 30U);
  for (const std::string id : kPartitions) {
    ASSERT_NE(aws::find_partition(id), nullptr) << id;
    std::vector<std::string> texts;
    partitions.clear();
    collect(json::parse(of_partition(policy, id)), texts, partitions);
    EXPECT_EQ(texts, own) << id;
    EXPECT_THAT(partitions, testing::ElementsAre(id));
  }
}

TEST_P(IamPolicy, names_no_host_or_service_of_one_partition) {
  for (const std::string id : kPartitions)
    EXPECT_THAT(policy, Not(HasSubstr(std::string(aws::find_partition(id)->dns_suffix)))) << id;
}

INSTANTIATE_TEST_SUITE_P(Templates, IamPolicy,
                         testing::Values("iam-policy.json", "iam-policy-optional.json"),
                         [](const auto& each) {
                           return std::string(each.param).find("optional") == std::string::npos
                                      ? "needed"
                                      : "optional";
                         });

TEST(Readme, gives_that_replacement_and_names_every_partition) {
  const std::string readme = text_of(std::string(WARMROOT_TEMPLATES_DIR) + "/../README.md");
  EXPECT_THAT(readme, HasSubstr("sed 's/arn:aws:/arn:aws-cn:/g' templates/iam-policy.json"));
  for (const std::string id : kPartitions) EXPECT_THAT(readme, HasSubstr("`" + id + "`")) << id;
}

}  // namespace
}  // namespace warmroot
