#include "manager/config.hpp"
#include "manager/aws/sqs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <regex>
#include <set>
#include <tuple>

#include "manager/config_launch.hpp"
#include "manager/config_stock.hpp"
#include "manager/config_table.hpp"
#include "manager/config_volumes.hpp"

namespace warmroot::manager {
namespace {

/// 10,000 pools with all that they can say; anything longer is some other file.
constexpr std::size_t kMaxSpecBytes = std::size_t{8} * 1024 * 1024;
constexpr std::size_t kReadBytes = std::size_t{64} * 1024;
/// Nodes of one pool: far above what one Region's volume quota allows (5,000 by default).
constexpr int kMaxNodes = 10000;
/// EC2's limit is 50 tags a resource; ours take five of them.
constexpr std::size_t kMaxOperatorTags = 45;
constexpr std::size_t kMaxTagKeyCharacters = 128;
constexpr std::size_t kMaxTagValueCharacters = 256;
/// EC2 refuses a spot price of 0.001 USD and less.
constexpr double kLowestSpotPriceUsd = 0.001;
/// Names become tag values, node names and file names.
constexpr std::size_t kMaxNameCharacters = 63;
/// What clients and proxies take. std::regex recurses once a character and would overflow the stack
/// on a value of some 100 KiB, so every length is checked before a match.
constexpr std::size_t kMaxUrlCharacters = 2048;

bool is_name(const std::string& text) {
  static const std::regex pattern("[a-z0-9]([a-z0-9-]*[a-z0-9])?");
  return text.size() <= kMaxNameCharacters && std::regex_match(text, pattern);
}

/// EC2's ids are the kind and 8 (old) or 17 hexadecimal digits; EC2 itself promises only that they
/// are opaque, so this is no more than a net for placeholders and ids of another kind.
bool is_id(const std::string& text, const std::string& kind) {
  return text.size() <= kMaxNameCharacters &&
         std::regex_match(text, std::regex(kind + "-[0-9a-z]{8,32}"));
}

/// us-east-1a, us-west-2-lax-1a, us-east-1-wl1-bos-wlz-1: a Region's name and more.
bool is_zone(const std::string& text) {
  static const std::regex pattern("[a-z]{2,}(-[a-z]+)+-[0-9]+([a-z]|-[a-z0-9-]+)");
  return text.size() <= kMaxNameCharacters && std::regex_match(text, pattern);
}

bool is_user_data_text(std::string_view text) {
  return text.starts_with("#!") || text.starts_with("#cloud-config");
}

void check_name(TableReader& table, std::string_view key, const std::string& name) {
  if (is_name(name)) return;
  table.mistake(key, fmt::format("\"{}\" is not a name, write 1 to {} of a-z, 0-9 and -, with a "
                                 "letter or digit at both ends",
                                 name, kMaxNameCharacters));
}

void check_id(TableReader& table, std::string_view key, const std::string& id,
              const std::string& kind) {
  if (is_id(id, kind)) return;
  table.mistake(key, fmt::format("\"{}\" is not an id, write {}- and what follows as EC2 shows it",
                                 id, kind));
}

std::map<std::string, std::string> read_tags(TableReader& table) {
  auto tags = table.text_map("tags").value_or(std::map<std::string, std::string>{});
  for (const auto& [key, value] : tags) {
    if (key.starts_with("warmroot:") || key.starts_with("aws:"))
      table.mistake(
          "tags",
          fmt::format(
              "\"{}\" begins with a reserved prefix, choose a key without warmroot: or aws:", key));
    if (key.empty() || key.size() > kMaxTagKeyCharacters)
      table.mistake("tags", fmt::format("\"{}\" is no tag key, write 1 to {} characters", key,
                                        kMaxTagKeyCharacters));
    if (value.size() > kMaxTagValueCharacters)
      table.mistake("tags", fmt::format("the value of \"{}\" has {} characters, EC2 allows {}", key,
                                        value.size(), kMaxTagValueCharacters));
  }
  if (tags.size() > kMaxOperatorTags)
    table.mistake("tags", fmt::format("{} tags, EC2 leaves room for {} beside ours", tags.size(),
                                      kMaxOperatorTags));
  return tags;
}

/// What all parts of one spec share while it is read.
struct Reading {
  const FileReader& read_file;
  std::vector<Mistake>& mistakes;
  const toml::table* default_volumes = nullptr;
  const toml::table* default_launch = nullptr;
};

core::VolumeSpec read_volumes(TableReader table, bool with_checks) {
  core::VolumeSpec spec;
  if (auto type = table.text("type")) spec.type = *type;
  spec.size_gib = table.whole("size_gib", 1, kMaxVolumeGib).value_or(0);
  spec.grow = table.flag("grow").value_or(false);
  spec.snapshot_unclean = table.flag("snapshot_unclean").value_or(false);
  spec.iops = table.whole("iops", 1, kMaxVolumeIops);
  spec.throughput_mib_s = table.whole("throughput_mib_s", 1, kMaxVolumeThroughputMibS);
  spec.encrypted = table.flag("encrypted").value_or(false);
  spec.kms_key = table.text("kms_key").value_or("");
  spec.tags = read_tags(table);
  if (with_checks)
    for (const auto& [key, text] : volume_mistakes(spec)) table.mistake(key, text);
  table.report_unknown();
  return spec;
}

std::string read_user_data(TableReader& table, const FileReader& read_file) {
  std::string written = table.text("user_data").value_or("");
  if (written.empty() || is_user_data_text(written)) return written;
  if (written.find('\n') != std::string::npos) {
    table.mistake("user_data",
                  "text has to begin with #! or #cloud-config, otherwise write the path of a file");
    return {};
  }
  auto content = read_file(written);
  if (!content) {
    table.mistake("user_data",
                  fmt::format("cannot read the file: {}; write its path relative to the spec",
                              content.error().message()));
    return {};
  }
  if (is_user_data_text(*content)) return *content;
  table.mistake("user_data",
                fmt::format("the file {} has to begin with #! or #cloud-config", written));
  return {};
}

void check_subnets(TableReader& table, const core::LaunchSpec& spec,
                   const std::vector<std::string>& zones) {
  for (const auto& [zone, subnet] : spec.subnets) {
    if (std::find(zones.begin(), zones.end(), zone) == zones.end())
      table.mistake(
          "subnets",
          fmt::format("{} is not one of the pool's zones ({}), add it there or take it out here",
                      zone, fmt::join(zones, ", ")));
    if (!is_id(subnet, "subnet"))
      table.mistake(
          "subnets",
          fmt::format("\"{}\" is not an id, write subnet- and what follows as EC2 shows it",
                      subnet));
  }
}

/// Region-wide subnets may name zones that one pool does not use.
void keep_zones(std::map<std::string, std::string>& subnets,
                const std::vector<std::string>& zones) {
  std::erase_if(subnets, [&](const auto& entry) {
    return std::find(zones.begin(), zones.end(), entry.first) == zones.end();
  });
}

/// `base_ami` as it is written, when it is text.
void check_launch(TableReader& table, const core::LaunchSpec& spec,
                  const std::optional<std::string>& base_ami, bool types_readable) {
  static const std::regex type_pattern("[a-z0-9-]+\\.[a-z0-9-]+");
  if (!table.has("base_ami")) {
    table.missing("base_ami",
                  "write base_ami = \"ami-...\", the AMI whose system receives the sessions");
  } else if (base_ami) {
    check_id(table, "base_ami", *base_ami, "ami");
  }
  if (!table.has("instance_types")) {
    table.missing("instance_types",
                  "write instance_types = [\"g5.12xlarge\"], in the order you prefer");
  } else if (types_readable && spec.instance_types.empty()) {
    table.mistake("instance_types",
                  "the list is empty, name at least one type, e.g. [\"g5.12xlarge\"]");
  }
  for (const std::string& type : spec.instance_types)
    if (type.size() > kMaxNameCharacters || !std::regex_match(type, type_pattern))
      table.mistake("instance_types",
                    fmt::format("\"{}\" is not an instance type, write e.g. g5.12xlarge", type));
  for (const std::string& group : spec.security_groups)
    check_id(table, "security_groups", group, "sg");
  if (!spec.max_price.empty() &&
      std::strtod(spec.max_price.c_str(), nullptr) <= kLowestSpotPriceUsd)
    table.mistake("max_price", fmt::format("{} is too low, EC2 wants more than {} USD an hour; "
                                           "leave it out to be capped at on-demand",
                                           spec.max_price, kLowestSpotPriceUsd));
}

/// `pool` absent: the defaults' own table, of which only form and unknown keys are checked.
core::LaunchSpec read_launch(TableReader table, const Reading& reading,
                             const core::PoolSpec* pool) {
  core::LaunchSpec spec;
  const auto base_ami = table.text("base_ami");
  spec.base_ami = base_ami.value_or("");
  const auto types = table.texts("instance_types");
  spec.instance_types = types.value_or(std::vector<std::string>{});
  spec.subnets = table.text_map("subnets").value_or(std::map<std::string, std::string>{});
  spec.security_groups = table.texts("security_groups").value_or(std::vector<std::string>{});
  spec.key_name = table.text("key_name").value_or("");
  spec.instance_profile = table.text("instance_profile").value_or("");
  spec.max_price = table.decimal("max_price").value_or("");
  read_market(table, spec, reading.mistakes, pool);
  spec.tags = read_tags(table);
  spec.user_data = read_user_data(table, reading.read_file);
  if (pool != nullptr) {
    check_launch(table, spec, base_ami, types.has_value());
    if (table.inherited("subnets")) keep_zones(spec.subnets, pool->zones);
    check_subnets(table, spec, pool->zones);
  }
  table.report_unknown();
  return spec;
}

void read_source(TableReader& table, core::PoolSpec& pool) {
  const auto ami = table.text("ami");
  const auto snapshot = table.text("snapshot");
  pool.ami = ami.value_or("");
  pool.snapshot = snapshot.value_or("");
  if (table.has("ami") && table.has("snapshot")) {
    table.mistake("snapshot", "a pool has either ami or snapshot, remove one of the two");
  } else if (!table.has("ami") && !table.has("snapshot")) {
    table.missing("ami",
                  "write ami = \"ami-...\" or snapshot = \"snap-...\", the source of the volumes");
  }
  if (ami) check_id(table, "ami", *ami, "ami");
  if (snapshot) check_id(table, "snapshot", *snapshot, "snap");
}

void read_zones(TableReader& table, core::PoolSpec& pool, const std::string& region) {
  const auto zones = table.texts("zones");
  pool.zones = zones.value_or(std::vector<std::string>{});
  if (!table.has("zones")) {
    table.missing("zones", "write zones = [\"us-east-1a\"]");
  } else if (zones && zones->empty()) {
    table.mistake("zones", "no zone is named, write e.g. zones = [\"us-east-1a\"]");
  }
  std::set<std::string> seen;
  for (const std::string& zone : pool.zones) {
    if (!is_zone(zone)) {
      table.mistake(
          "zones",
          fmt::format(
              "\"{}\" is not a zone, write the Region and the zone's letter, e.g. us-east-1a",
              zone));
    } else if (!region.empty() && !zone.starts_with(region)) {
      table.mistake("zones",
                    fmt::format("{} is not in the Region {}, correct the zone or the key region",
                                zone, region));
    }
    if (!seen.insert(zone).second)
      table.mistake("zones", fmt::format("{} is listed twice, remove one", zone));
  }
}

core::PoolSpec read_pool(const toml::table& own, const Reading& reading, Config& config) {
  core::PoolSpec pool;
  TableReader table("[[pool]]", own, nullptr, reading.mistakes);
  pool.name = table.text("name").value_or("");
  if (!table.has("name")) table.missing("name", "write name = \"...\", unique among the pools");
  if (own.get("name") != nullptr && own.get("name")->is_string())
    check_name(table, "name", pool.name);
  read_source(table, pool);
  read_zones(table, pool, config.region);
  if (!table.has("nodes")) table.missing("nodes", "write nodes = 1, the number of volumes kept");
  const std::optional<int> nodes = table.whole("nodes", 0, kMaxNodes);
  pool.nodes = nodes.value_or(0);
  pool.auto_scaling_group = table.text("auto_scaling_group").value_or("");
  // A group says itself how many run: every node may have one of its instances.
  const int unless_told = pool.auto_scaling_group.empty() ? 0 : pool.nodes;
  pool.running = table.whole("running", 0, kMaxNodes).value_or(unless_told);
  if (nodes && pool.running > *nodes)
    table.mistake(
        "running",
        fmt::format("{} instances are wanted for {} volumes, raise nodes or write running = {}",
                    pool.running, *nodes, *nodes));
  static const toml::table empty;
  const toml::table* volumes = table.table("volumes");
  pool.volumes = read_volumes(TableReader("[pool.volumes]", volumes != nullptr ? *volumes : empty,
                                          reading.default_volumes, reading.mistakes),
                              true);
  if (const toml::table* stock = table.table("stock"))
    pool.stock =
        read_stock(TableReader("[pool.stock]", *stock, nullptr, reading.mistakes), kMaxNodes);
  if (const toml::table* rollout = table.table("rollout"))
    pool.rollout =
        read_rollout(TableReader("[pool.rollout]", *rollout, nullptr, reading.mistakes), kMaxNodes);
  if (const toml::table* warm = table.table("warm")) {
    const auto read = read_warm(TableReader("[pool.warm]", *warm, nullptr, reading.mistakes));
    pool.warm = read.spec;
    if (!read.block_list) config.without_block_lists.insert(pool.name);
    if (read.max_mib_s > 0) config.ticket_settings[pool.name].warm_max_mib_s = read.max_mib_s;
  }
  if (const toml::table* session = table.table("session")) {
    const auto read =
        read_session(TableReader("[pool.session]", *session, nullptr, reading.mistakes));
    pool.session = read.spec;
    if (read.login_wait_s) config.ticket_settings[pool.name].login_wait_s = read.login_wait_s;
  }
  if (const toml::table* launch = table.table("launch"))
    pool.launch =
        read_launch(TableReader("[pool.launch]", *launch, reading.default_launch, reading.mistakes),
                    reading, &pool);
  if (pool.launch && !pool.auto_scaling_group.empty())
    table.mistake("auto_scaling_group",
                  "the group launches, and so would [pool.launch]: leave one of them out");
  table.report_unknown();
  return pool;
}

void check_manager_url(TableReader& table, std::string& url) {
  while (url.ends_with('/')) url.pop_back();
  // The bootstrap has neither TLS nor a resolver.
  static const std::regex pattern(
      "http://([A-Za-z0-9.-]+|\\[[0-9a-fA-F:]+\\])(:([0-9]{1,5}))?(/[A-Za-z0-9._~/-]*)?");
  constexpr int kLastPort = 65535;
  std::smatch parts;
  if (url.size() > kMaxUrlCharacters || !std::regex_match(url, parts, pattern) ||
      (parts[3].matched && (std::stoi(parts[3]) == 0 || std::stoi(parts[3]) > kLastPort)))
    table.mistake("manager_url",
                  fmt::format("\"{}\" is not a URL that an instance can use, write http, an IP "
                              "address and a port, e.g. \"http://10.0.0.5:8470\", as instances "
                              "reach this host",
                              url));
}

/// The form alone; that the queue is there is found out by serve.
void read_events(TableReader& top, Config& config, std::vector<Mistake>& mistakes) {
  const toml::table* events = top.table("events");
  if (events == nullptr) return;
  TableReader table("[events]", *events, nullptr, mistakes);
  config.queue_url = table.text("queue_url").value_or("");
  if (!table.has("queue_url"))
    table.missing("queue_url", "write the URL of the SQS queue that EC2's events come to");
  else if (const auto address = aws::parse_queue_url(config.queue_url, ""); !address)
    table.mistake("queue_url", address.error().context);
  table.report_unknown();
}

void read_defaults(TableReader& top, Reading& reading) {
  const toml::table* defaults = top.table("defaults");
  if (defaults == nullptr) return;
  TableReader table("[defaults]", *defaults, nullptr, reading.mistakes);
  reading.default_volumes = table.table("volumes");
  reading.default_launch = table.table("launch");
  if (reading.default_volumes != nullptr)
    read_volumes(
        TableReader("[defaults.volumes]", *reading.default_volumes, nullptr, reading.mistakes),
        false);
  if (reading.default_launch != nullptr)
    read_launch(
        TableReader("[defaults.launch]", *reading.default_launch, nullptr, reading.mistakes),
        reading, nullptr);
  table.report_unknown();
}

void read_pools(TableReader& top, const Reading& reading, Config& config) {
  const std::vector<const toml::table*> pools = top.tables("pool");
  if (!top.has("pool"))
    top.missing("pool", "write at least one [[pool]]; running = 0 in each pays for volumes alone");
  std::set<std::string> names;
  for (const toml::table* own : pools) {
    core::PoolSpec pool = read_pool(*own, reading, config);
    if (!pool.name.empty() && !names.insert(pool.name).second) {
      TableReader table("[[pool]]", *own, nullptr, reading.mistakes);
      table.mistake(
          "name",
          fmt::format("\"{}\" is the name of an earlier pool too, rename one of them", pool.name));
    }
    config.desired.pools.push_back(std::move(pool));
  }
}

/// A mistake in the defaults is met once for each pool that inherits it: told once.
void tidy(std::vector<Mistake>& mistakes) {
  const auto place = [](const Mistake& m) { return std::tie(m.line, m.column, m.text); };
  std::sort(mistakes.begin(), mistakes.end(),
            [&](const Mistake& a, const Mistake& b) { return place(a) < place(b); });
  mistakes.erase(std::unique(mistakes.begin(), mistakes.end()), mistakes.end());
}

/// The parser's own words, but for the commonest mistake: it calls the line break in an unclosed
/// string a control character.
std::string toml_mistake(std::string_view description, std::string_view text) {
  const auto says = [&](const char* words) {
    return description.find(words) != std::string_view::npos;
  };
  const bool has_controls = std::any_of(text.begin(), text.end(), [](char c) {
    return (c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == '\x7f';
  });
  if (says("string: ") && (says("end-of-file") || (says("control characters") && !has_controls)))
    return "the string is not closed on this line";
  return std::string(description);
}

}  // namespace

ParsedSpec parse_spec(std::string_view text, const FileReader& read_file) {
  ParsedSpec parsed;
  const toml::parse_result result = toml::parse(text);
  if (!result) {
    const toml::source_position at = result.error().source().begin;
    parsed.mistakes.push_back({static_cast<int>(at.line), static_cast<int>(at.column),
                               fmt::format("not TOML: {}; nothing after this place was read",
                                           toml_mistake(result.error().description(), text))});
    return parsed;
  }
  Config& config = parsed.config;
  Reading reading{read_file, parsed.mistakes};
  TableReader top("", result.table(), nullptr, parsed.mistakes);
  const auto deployment = top.text("deployment");
  config.desired.deployment = deployment.value_or("");
  if (!top.has("deployment"))
    top.missing("deployment",
                "write deployment = \"...\", a name that no other manager of this account uses");
  if (deployment) check_name(top, "deployment", *deployment);
  config.region = top.text("region").value_or("");
  config.manager_url = top.text("manager_url").value_or("");
  if (!config.manager_url.empty()) check_manager_url(top, config.manager_url);
  read_events(top, config, parsed.mistakes);
  read_defaults(top, reading);
  read_pools(top, reading, config);
  top.report_unknown();
  tidy(parsed.mistakes);
  return parsed;
}

Result<std::string> read_text_file(const std::string& path, std::size_t limit_bytes) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return fail_errno(path);
  std::string content;
  std::string buffer(kReadBytes, '\0');
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    content.append(buffer, 0, size);
    if (content.size() > limit_bytes)
      return fail(ErrorKind::refused, fmt::format("{} is larger than {} bytes", path, limit_bytes));
  }
  if (std::ferror(file.get()) != 0) return fail_errno(path);
  return content;
}

Result<Config> load_spec(const std::string& path) {
  auto text = read_text_file(path, kMaxSpecBytes);
  if (!text)
    return fail(
        ErrorKind::misconfigured,
        fmt::format("cannot read the spec {}; give its path with --spec FILE or WARMROOT_SPEC",
                    text.error().message()));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  ParsedSpec parsed = parse_spec(*text, [&](const std::string& name) {
    return read_text_file((folder / name).string(), kMaxSpecBytes);
  });
  if (parsed.mistakes.empty()) return std::move(parsed.config);
  const std::size_t count = parsed.mistakes.size();
  std::string list = fmt::format("the spec {} has {}; nothing was changed", path,
                                 count == 1 ? "a mistake" : fmt::format("{} mistakes", count));
  for (const Mistake& mistake : parsed.mistakes)
    list += fmt::format("\n  {}:{}:{}: {}", path, mistake.line, mistake.column, mistake.text);
  return fail(ErrorKind::misconfigured, std::move(list));
}

}  // namespace warmroot::manager
