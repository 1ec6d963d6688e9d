// See the header.
#include "tests/fleet_sim/options.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tests/fleet_sim/catalogue.hpp"
#include "tests/fleet_sim/planted.hpp"

namespace warmroot::fleet {

namespace {

constexpr const char* kUsage =
    "usage: fleet_sim [--first-seed S] [--seeds N] [--nodes K, 2 or more] [--minutes M] [--faults "
    "all|NAME,...] "
    "[--jobs J] [--ledgers DIRECTORY] [--json] [--coverage] [--trace] [--violations N] [--planted "
    "N]";

template <typename T>
bool parse_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

Ok parse_faults(std::string_view text, std::vector<std::string>& faults) {
  faults.clear();
  if (text == "all") return {};
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    const std::string name(text.substr(0, comma));
    const bool known = std::any_of(all_faults().begin(), all_faults().end(),
                                   [&](const FaultEntry* each) { return name == each->name; });
    if (!known) {
      std::string names;
      for (const auto* each : all_faults()) names += std::string(" ") + each->name;
      return fail(ErrorKind::misconfigured, "no fault is called " + name + "; there are" + names);
    }
    faults.push_back(name);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return {};
}

Ok set_value(std::string_view key, std::string_view value, Options& options) {
  bool good = true;
  if (key == "--first-seed")
    good = parse_number(value, options.first_seed);
  else if (key == "--seeds")
    good = parse_number(value, options.seeds);
  else if (key == "--nodes")
    good = parse_number(value, options.nodes) && options.nodes >= 2;
  else if (key == "--minutes")
    good = parse_number(value, options.minutes) && options.minutes >= 1;
  else if (key == "--jobs")
    good = parse_number(value, options.jobs) && options.jobs >= 1;
  else if (key == "--violations")
    good = parse_number(value, options.most_violations);
  else if (key == "--planted")
    good =
        parse_number(value, options.planted) && (options.planted == 0 || !planted_bugs().empty());
  else if (key == "--faults")
    return parse_faults(value, options.faults);
  else if (key == "--ledgers")
    options.ledgers = value;
  else
    return fail(ErrorKind::misconfigured, kUsage);
  if (!good)
    return fail(ErrorKind::misconfigured,
                std::string(value) + " is no value for " + std::string(key) + "\n" + kUsage);
  return {};
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view key = argv[i];
    if (key == "--json") {
      options.json = true;
    } else if (key == "--coverage") {
      options.coverage = true;
    } else if (key == "--trace") {
      options.print_trace = true;
    } else if (i + 1 < argc) {
      TRY(set_value(key, argv[++i], options));
    } else {
      return fail(ErrorKind::misconfigured, kUsage);
    }
  }
  return options;
}

}  // namespace warmroot::fleet
