// See the header.
#include "tests/sim/query_listing.hpp"

#include <algorithm>

namespace warmroot::sim {

namespace {

bool matches(const char* pattern, const char* pattern_end, const char* text, const char* end) {
  for (; pattern != pattern_end; ++pattern) {
    if (*pattern == '*') {
      for (const char* rest = text;; ++rest) {
        if (matches(pattern + 1, pattern_end, rest, end)) return true;
        if (rest == end) return false;
      }
    }
    if (text == end) return false;
    if (*pattern == '\\' && pattern + 1 != pattern_end) {
      if (*++pattern != *text) return false;
    } else if (*pattern != '?' && *pattern != *text) {
      return false;
    }
    ++text;
  }
  return text == end;
}

struct IdKind {
  const char* prefix;
  const char* malformed;  ///< the code for a well-started but malformed id
};

IdKind kind_of(const std::string& parameter) {
  if (parameter == "VolumeId") return {"vol-", "InvalidVolumeID.Malformed"};
  if (parameter == "InstanceId") return {"i-", "InvalidInstanceID.Malformed"};
  if (parameter == "SnapshotId") return {"snap-", "InvalidSnapshotID.Malformed"};
  if (parameter == "ImageId") return {"ami-", "InvalidAMIID.Malformed"};
  return {"subnet-", "InvalidSubnetID.NotFound"};
}

}  // namespace

bool wildcard_match(std::string_view pattern, std::string_view text) {
  return matches(pattern.data(), pattern.data() + pattern.size(), text.data(),
                 text.data() + text.size());
}

Answer<std::vector<FilterClause>> parse_filters(
    const Form& form, const std::function<FilterValues(const std::string&)>& lookup) {
  constexpr std::size_t kMaxValues = 200;
  std::vector<FilterClause> filters;
  std::size_t values = 0;
  for (const auto& element : form.elements("Filter")) {
    FilterClause clause{form.text(element + ".Name"), form.list(element + ".Value")};
    if (clause.name.empty())
      return refuse("MissingParameter",
                    "The request must contain the parameter " + element + ".Name");
    if (!lookup(clause.name))
      return refuse("InvalidParameterValue", "The filter '" + clause.name + "' is invalid");
    if (clause.values.empty())
      return refuse("InvalidParameterValue", "The filter '" + clause.name + "' has no values");
    values += clause.values.size();
    filters.push_back(std::move(clause));
  }
  if (values > kMaxValues)
    return refuse("FilterLimitExceeded",
                  "The maximum number of filter values specified on a single call is 200");
  return filters;
}

bool passes(const std::vector<FilterClause>& filters,
            const std::function<FilterValues(const std::string&)>& lookup) {
  return std::all_of(filters.begin(), filters.end(), [&](const FilterClause& clause) {
    const FilterValues have = lookup(clause.name);
    return have && std::any_of(have->begin(), have->end(), [&](const std::string& value) {
             return std::any_of(
                 clause.values.begin(), clause.values.end(),
                 [&](const std::string& wanted) { return wildcard_match(wanted, value); });
           });
  });
}

FilterValues tag_filter(const Tags& tags, const std::string& name) {
  std::vector<std::string> out;
  if (name == "tag-key") {
    for (const auto& [key, value] : tags) out.push_back(key);
    return out;
  }
  if (!name.starts_with("tag:") || name.size() == 4) return std::nullopt;
  if (const auto found = tags.find(name.substr(4)); found != tags.end())
    out.push_back(found->second);
  return out;
}

std::string make_next_token(const Form& form, const std::string& last_key) {
  return base64_encode(form.text("Action") + "|" + last_key);
}

Answer<PageRequest> parse_page(const Region& region, const Form& form, const std::string& ids_set,
                               const std::vector<std::string>& ids, int least) {
  constexpr int kMostResults = 1000;
  PageRequest page;
  const auto wanted = form.integer("MaxResults");
  if (!wanted) return tl::unexpected(wanted.error());
  if (*wanted && !ids.empty() && !ids_set.empty())
    return refuse("InvalidParameterCombination", "The parameter " + ids_set +
                                                     " cannot be used with the parameter "
                                                     "maxResults");
  if (*wanted && **wanted < least)
    return refuse("InvalidParameterValue",
                  "Value ( " + std::to_string(**wanted) +
                      " ) for parameter maxResults is invalid. Expecting a value greater than " +
                      std::to_string(least) + ".");
  page.limit = static_cast<std::size_t>(
      std::min({wanted->value_or(kMostResults), kMostResults, region.knobs.page_cap}));
  const std::string token = form.text("NextToken");
  if (token.empty()) return page;
  const auto text = base64_decode(token);
  const std::string start = form.text("Action") + "|";
  if (!text || !text->starts_with(start))
    return refuse("InvalidNextToken", "The token '" + token + "' is invalid");
  page.after = text->substr(start.size());
  page.continues = true;
  return page;
}

Answer<void> check_id(const Region& region, const std::string& id, const std::string& parameter) {
  const IdKind kind = kind_of(parameter);
  if (region.snapshot(id) != nullptr || region.image(id) != nullptr || region.subnet(id) != nullptr)
    return {};
  if (well_formed_id(id, kind.prefix)) return {};
  if (parameter == "SubnetId")
    return refuse(kind.malformed, "The subnet ID '" + id + "' does not exist");
  const bool by_prefix = parameter == "InstanceId" || id.starts_with(kind.prefix);
  if (by_prefix) return refuse(kind.malformed, "Invalid id: \"" + id + "\"");
  if (parameter == "ImageId")
    return refuse(kind.malformed, "Invalid id: \"" + id + "\" (expecting \"ami-...\")");
  return refuse("InvalidParameterValue", "Value (" + id + ") for parameter " + parameter +
                                             " is invalid. Expected: '" + kind.prefix + "...'.");
}

Answer<std::vector<std::string>> parse_ids(const Region& region, const Form& form,
                                           const std::string& parameter) {
  auto ids = form.list(parameter);
  for (const auto& id : ids)
    if (auto checked = check_id(region, id, parameter); !checked)
      return tl::unexpected(checked.error());
  return ids;
}

void write_tags(XmlWriter& xml, const Tags& tags) {
  if (tags.empty()) {
    if (xml.shape().empty_lists == XmlShape::EmptyLists::written) xml.empty("tagSet");
    return;
  }
  xml.open("tagSet");
  for (const auto& [key, value] : tags) {
    xml.open("item");
    xml.text("key", key);
    xml.text("value", value);
    xml.close();
  }
  xml.close();
}

void write_next_token(XmlWriter& xml, const std::string& token) {
  if (!token.empty()) xml.text("nextToken", token);
}

}  // namespace warmroot::sim
