// The launch template actions of the Query front. A template's data are kept as the form named them
// ("LaunchTemplateData.X" is X), so that a launch can lay its own parameters over them.
#include <algorithm>
#include <regex>
#include <set>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/query_instances.hpp"

namespace warmroot::sim {

namespace {

constexpr std::string_view kData = "LaunchTemplateData.";

tl::unexpected<ApiError> name_not_found() {
  return refuse("InvalidLaunchTemplateName.NotFoundException",
                "At least one of the launch templates specified in the request does not exist.");
}

Answer<TemplateVersion> parse_data(const Form& form) {
  TemplateVersion version;
  version.description = form.text("VersionDescription");
  for (const auto& [name, value] : form.values())
    if (name.starts_with(kData)) version.data[name.substr(kData.size())] = value;
  if (version.data.empty())
    return refuse("MissingParameter", "The request must contain the parameter LaunchTemplateData");
  // Not looked at until a launch, but for its user data.
  const auto bytes = base64_decode(form.text("LaunchTemplateData.UserData"));
  if (!bytes) return refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.");
  constexpr std::size_t kMaxUserData = 16384;
  if (bytes->size() > kMaxUserData)
    return refuse("InvalidUserData.Malformed", "User data is limited to 16384 bytes");
  return version;
}

void write_template(const Region& region, XmlWriter& xml, const TemplateRecord& record) {
  xml.text("launchTemplateId", record.id);
  xml.text("launchTemplateName", record.name);
  xml.text("createTime", to_iso8601(record.create_time));
  xml.text("createdBy", "arn:aws:iam::" + region.catalog().account_id + ":user/operator");
  xml.number("defaultVersionNumber", record.default_version);
  xml.number("latestVersionNumber", record.versions.back().number);
  write_tags(xml, record.tags);
}

std::string lower_first(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// Numbered parameters back as elements: lists get EC2's "Set" and "item".
void write_data(XmlWriter& xml, const Form& form, const std::string& prefix) {
  std::set<std::string> names;
  for (const auto& [name, value] : form.values()) {
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(prefix.size());
    names.insert(rest.substr(0, rest.find('.')));
  }
  for (const auto& name : names) {
    const auto elements = form.elements(prefix + name);
    if (form.has(prefix + name)) {
      xml.text(lower_first(name), form.text(prefix + name));
    } else if (elements.empty()) {
      xml.open(lower_first(name));
      write_data(xml, form, prefix + name + ".");
      xml.close();
    } else {
      xml.open(lower_first(name) + "Set");
      for (const auto& element : elements) {
        if (form.has(element)) {
          xml.text("item", form.text(element));
          continue;
        }
        xml.open("item");
        write_data(xml, form, element + ".");
        xml.close();
      }
      xml.close();
    }
  }
}

void write_version(const Region& region, XmlWriter& xml, const TemplateRecord& record,
                   const TemplateVersion& version) {
  xml.text("launchTemplateId", record.id);
  xml.text("launchTemplateName", record.name);
  xml.number("versionNumber", version.number);
  if (!version.description.empty()) xml.text("versionDescription", version.description);
  xml.text("createTime", to_iso8601(version.create_time));
  xml.text("createdBy", "arn:aws:iam::" + region.catalog().account_id + ":user/operator");
  xml.flag("defaultVersion", version.number == record.default_version);
  xml.open("launchTemplateData");
  write_data(xml, Form::of(version.data), "");
  xml.close();
}

FilterValues template_filter(const TemplateRecord& record, const std::string& name) {
  if (name == "launch-template-name") return std::vector<std::string>{record.name};
  if (name == "create-time") return std::vector<std::string>{to_iso8601(record.create_time)};
  return tag_filter(record.tags, name);
}

/// The template of a call about one.
Answer<const TemplateRecord*> template_of(const Region& region, const Form& form,
                                          const std::string& prefix) {
  const std::string id = form.text(prefix + "LaunchTemplateId");
  const std::string name = form.text(prefix + "LaunchTemplateName");
  if (id.empty() == name.empty())
    return refuse(id.empty() ? "MissingParameter" : "InvalidParameterCombination",
                  "Either the launch template ID or the launch template name must be specified");
  if (!name.empty()) {
    const TemplateRecord* found = region.template_named(name);
    if (found == nullptr) return name_not_found();
    return found;
  }
  if (!well_formed_id(id, "lt-"))
    return refuse("InvalidLaunchTemplateId.Malformed", "Invalid id: \"" + id + "\"");
  const auto found = region.templates().find(id);
  if (found == region.templates().end()) return template_not_found(id);
  return &found->second;
}

Answer<const TemplateVersion*> version_of(const TemplateRecord& record, const std::string& wanted) {
  int number = std::atoi(wanted.c_str());
  if (wanted == "$Latest") number = record.versions.back().number;
  if (wanted.empty() || wanted == "$Default") number = record.default_version;
  for (const auto& version : record.versions)
    if (version.number == number) return &version;
  return refuse("InvalidLaunchTemplateId.VersionNotFound",
                "Could not find the specified version " + wanted +
                    " for the launch template with ID " + record.id + ".");
}

}  // namespace

Answer<NamedTemplate> find_template(const Region& region, const Form& form,
                                    const std::string& prefix, const std::string& version) {
  const auto record = template_of(region, form, prefix);
  if (!record) return tl::unexpected(record.error());
  const auto found = version_of(**record, version);
  if (!found) return tl::unexpected(found.error());
  return NamedTemplate{*record, *found};
}

Answer<void> create_template_action(Region& region, const Form& form, XmlWriter& xml) {
  static const std::regex kName("[a-zA-Z0-9().\\-/_]{3,128}");
  const std::string name = form.text("LaunchTemplateName");
  if (!std::regex_match(name, kName))
    return refuse("InvalidLaunchTemplateName.MalformedException",
                  "A launch template name must be between 3 and 128 characters, and may contain "
                  "letters, numbers, and the following characters: ( ) . - / _");
  const auto version = parse_data(form);
  if (!version) return tl::unexpected(version.error());
  const auto tags = form.tag_specification("launch-template", {"launch-template"});
  if (!tags) return tl::unexpected(tags.error());
  const auto made =
      region.create_template(name, *version, *tags, form.text("ClientToken"), form.fingerprint());
  if (!made) return tl::unexpected(made.error());
  xml.open("launchTemplate");
  write_template(region, xml, *made);
  xml.close();
  return {};
}

Answer<void> create_template_version_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto record = template_of(region, form, "");
  if (!record) return tl::unexpected(record.error());
  auto version = parse_data(form);
  if (!version) return tl::unexpected(version.error());
  if (const auto source = form.text("SourceVersion"); !source.empty()) {
    const auto from = version_of(**record, source);
    if (!from) return tl::unexpected(from.error());
    version->data = over_template((*from)->data, version->data);
  }
  const auto made = region.add_template_version((*record)->id, *version, form.text("ClientToken"),
                                                form.fingerprint());
  if (!made) return tl::unexpected(made.error());
  xml.open("launchTemplateVersion");
  write_version(region, xml, *made, made->versions.back());
  xml.close();
  return {};
}

Answer<void> describe_templates_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto ids = form.list("LaunchTemplateId"), names = form.list("LaunchTemplateName");
  const auto filters = parse_filters(
      form, [](const std::string& name) { return template_filter(TemplateRecord{}, name); });
  if (!filters) return tl::unexpected(filters.error());
  constexpr int kLeastResults = 1;
  const auto page = parse_page(region, form, "", {}, kLeastResults);
  if (!page) return tl::unexpected(page.error());
  for (const auto& id : ids) {
    if (!well_formed_id(id, "lt-"))
      return refuse("InvalidLaunchTemplateId.Malformed", "Invalid id: \"" + id + "\"");
    if (!region.templates().contains(id)) return template_not_found(id);
  }
  for (const auto& name : names)
    if (region.template_named(name) == nullptr) return name_not_found();
  std::vector<const TemplateRecord*> found;
  for (const auto& [id, record] : region.templates())
    if ((ids.empty() || contains(ids, id)) && (names.empty() || contains(names, record.name)) &&
        passes(*filters, [&record = record](const std::string& name) {
          return template_filter(record, name);
        }))
      found.push_back(&record);
  const auto [items, next] =
      cut_page(region, form, *page, found, [](const TemplateRecord* record) { return record->id; });
  xml.open("launchTemplates");
  for (const auto* record : items) {
    xml.open("item");
    write_template(region, xml, *record);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

Answer<void> describe_template_versions_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto record = template_of(region, form, "");
  if (!record) return tl::unexpected(record.error());
  std::vector<const TemplateVersion*> found;
  const auto wanted = form.list("LaunchTemplateVersion");
  for (const auto& version : wanted) {
    const auto one = version_of(**record, version);
    if (!one) return tl::unexpected(one.error());
    found.push_back(*one);
  }
  if (wanted.empty())
    for (const auto& version : (*record)->versions) found.push_back(&version);
  xml.open("launchTemplateVersionSet");
  for (const auto* version : found) {
    xml.open("item");
    write_version(region, xml, **record, *version);
    xml.close();
  }
  xml.close();
  return {};
}

Answer<void> delete_template_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto record = template_of(region, form, "");
  if (!record) return tl::unexpected(record.error());
  xml.open("launchTemplate");
  write_template(region, xml, **record);
  xml.close();
  region.delete_template((*record)->id);
  return {};
}

}  // namespace warmroot::sim
