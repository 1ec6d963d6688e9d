// What all Describe actions share: ids with their refusals, filters with wildcards, pages. Used by
// the actions' files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/query_form.hpp"
#include "tests/sim/region.hpp"
#include "tests/sim/region_rules.hpp"
#include "tests/sim/xml_writer.hpp"

namespace warmroot::sim {

/// The values a record has under a filter's name; nullopt when EC2 has no filter of that name.
using FilterValues = std::optional<std::vector<std::string>>;

/// `*` and `?` match as EC2's filters do; `\` takes the next character as it is.
bool wildcard_match(std::string_view pattern, std::string_view text);

struct FilterClause {
  std::string name;
  std::vector<std::string> values;
};

/// Reads `Filter.N`. `lookup` answers for a record without content, to find unknown names. Errors:
/// InvalidParameterValue, FilterLimitExceeded.
Answer<std::vector<FilterClause>> parse_filters(
    const Form& form, const std::function<FilterValues(const std::string&)>& lookup);

/// Names are AND-ed, values OR-ed.
bool passes(const std::vector<FilterClause>& filters,
            const std::function<FilterValues(const std::string&)>& lookup);

/// `tag:KEY` and `tag-key`; nullopt for other names.
FilterValues tag_filter(const Tags& tags, const std::string& name);

/// One page to answer with.
struct PageRequest {
  std::size_t limit = 0;
  std::string after;       ///< key of the last item already given
  bool continues = false;  ///< a NextToken was given
};

/// Reads MaxResults and NextToken. `ids_set` is the name under which EC2 refuses them together with
/// ids ("volumeSet"); empty skips that rule. `least` is the smallest MaxResults.
Answer<PageRequest> parse_page(const Region& region, const Form& form, const std::string& ids_set,
                               const std::vector<std::string>& ids, int least = 5);

std::string make_next_token(const Form& form, const std::string& last_key);

/// Cuts one page out of `items`, whose keys ascend, and gives its NextToken (empty: last page).
template <typename T, typename Key>
std::pair<std::vector<T>, std::string> cut_page(const Region& region, const Form& form,
                                                const PageRequest& page, std::vector<T> items,
                                                Key key) {
  if (region.knobs.empty_first_page && !page.continues && !items.empty())
    return {std::vector<T>{}, make_next_token(form, "")};
  if (region.knobs.empty_page_now && !items.empty())
    return {std::vector<T>{}, make_next_token(form, page.after)};
  std::vector<T> out;
  for (auto& item : items) {
    if (page.continues && key(item) <= page.after) continue;
    if (out.size() == page.limit) return {out, make_next_token(form, key(out.back()))};
    out.push_back(item);
  }
  return {out, {}};
}

/// `VolumeId.N` and the like, well-formed. Errors: *.Malformed or InvalidParameterValue.
Answer<std::vector<std::string>> parse_ids(const Region& region, const Form& form,
                                           const std::string& parameter);
/// The same for one id. Ids of the catalogue are well-formed whatever they look like, so that a
/// demo may name them after what they are.
Answer<void> check_id(const Region& region, const std::string& id, const std::string& parameter);

/// `tagSet`, left out when there are no tags, as EC2 does.
void write_tags(XmlWriter& xml, const Tags& tags);
void write_next_token(XmlWriter& xml, const std::string& token);

}  // namespace warmroot::sim
