#include "bench/warm_contenders.hpp"

#include <algorithm>
#include <charconv>

namespace warmroot::bench {
namespace {

/// Oracle: as many in flight as a loop has tags, so that the volume alone is the limit.
constexpr unsigned kOracleDepth = 128;

std::optional<Contender> find(std::string_view name) {
  for (const Contender& contender : all_contenders())
    if (contender.name == name) return contender;
  return {};
}

Result<Contender> parse_contender(std::string_view word) {
  const auto at = word.find('@');
  auto contender = find(word.substr(0, at));
  if (!contender) {
    std::string names;
    for (const Contender& known : all_contenders()) names += " " + known.name;
    return fail(ErrorKind::misconfigured,
                "there is no contender \"" + std::string(word) + "\"; there are:" + names);
  }
  if (at == std::string_view::npos) return *contender;
  const std::string_view depth = word.substr(at + 1);
  const auto [end, error] =
      std::from_chars(depth.data(), depth.data() + depth.size(), contender->depth);
  if (contender->depth == 0 || end != depth.data() + depth.size() || error != std::errc{} ||
      (contender->method != Method::fio && contender->method != Method::touch &&
       contender->method != Method::oracle))
    return fail(
        ErrorKind::misconfigured,
        "\"" + std::string(word) + "\": only fio, touch and oracle take a depth, from 1 on");
  contender->name = word;
  return *contender;
}

}  // namespace

const std::vector<Contender>& all_contenders() {
  static const std::vector<Contender> contenders = {
      {.name = "none", .what = "nobody warms"},
      {.name = "plain",
       .plain_mount = true,
       .what = "nobody warms, and mount(8) finds out what it mounts, as in a script"},
      {.name = "local",
       .method = Method::local,
       .volume_is_warm = true,
       .what = "floor: nothing is absent, nobody warms"},
      {.name = "oracle",
       .method = Method::oracle,
       .depth = kOracleDepth,
       .what = "this very session's blocks in first-use order, all in flight, nothing else"},
      {.name = "dd", .method = Method::dd, .what = "dd bs=1M over the device (AWS)"},
      {.name = "fio128k",
       .method = Method::fio,
       .depth = 32,
       .block_size = "128k",
       .what = "fio bs=128k iodepth=32 direct libaio over the device (AWS, old text)"},
      {.name = "fio1m",
       .method = Method::fio,
       .depth = 32,
       .block_size = "1M",
       .what = "the same with bs=1M (AWS, current text)"},
      {.name = "touch",
       .method = Method::touch,
       .depth = 128,
       .what = "4 KiB of every 512 KiB of the device, 128 in flight (ebs-folder-warmer's default)"},
      {.name = "cat", .method = Method::cat, .what = "cat of all files by 8 readers"},
      {.name = "ours",
       .method = Method::ours,
       .list = ListFrom::this_workload,
       .what = "with a list of this workload, recorded on another seed"},
      {.name = "ours-other",
       .method = Method::ours,
       .list = ListFrom::other_workload,
       .what = "with a list of the other workload"},
      {.name = "ours-older",
       .method = Method::ours,
       .list = ListFrom::older_image,
       .what = "with a list of this workload from a disk one package upgrade older"},
      {.name = "ours-nolist", .method = Method::ours, .what = "without a list"},
      {.name = "ours-blocks",
       .method = Method::ours,
       .list = ListFrom::this_workload,
       .has_block_list = true,
       .what = "with a list of this workload and the snapshot's block list"},
      {.name = "ours-nolist-blocks",
       .method = Method::ours,
       .has_block_list = true,
       .what = "without a hot list, with the snapshot's block list"},
      {.name = "ours-pread",
       .method = Method::ours,
       .list = ListFrom::this_workload,
       .without_ring = true,
       .what = "as ours, where io_uring is refused"},
      {.name = "ours-warm",
       .method = Method::ours,
       .volume_is_warm = true,
       .what = "without a list, on a volume where nothing is absent"},
  };
  return contenders;
}

Result<std::vector<Contender>> parse_contenders(std::string_view list) {
  if (list == "all") return all_contenders();
  std::vector<Contender> chosen;
  while (true) {
    const auto comma = list.find(',');
    TRY_ASSIGN(Contender contender, parse_contender(list.substr(0, comma)));
    if (std::ranges::any_of(chosen, [&](const Contender& c) { return c.name == contender.name; }))
      return fail(ErrorKind::misconfigured, "\"" + contender.name + "\" is named twice");
    chosen.push_back(std::move(contender));
    if (comma == std::string_view::npos) return chosen;
    list.remove_prefix(comma + 1);
  }
}

bool starts_after_mount(const Contender& contender) {
  return contender.method == Method::cat;
}

std::optional<Command> command_of(const Contender& contender, const Places& places) {
  Command command;
  command.output = places.output;
  switch (contender.method) {
    case Method::none:
    case Method::local:
      return {};
    case Method::oracle:
    case Method::touch:
      command.words = {places.self, "--touch", places.disk, std::to_string(contender.depth),
                       places.blocks_file};
      break;
    case Method::dd:
      command.words = {"/usr/bin/dd", "if=" + places.disk, "of=/dev/null", "bs=1M"};
      break;
    case Method::fio:
      command.words = {"/usr/bin/fio",
                       "--filename=" + places.disk,
                       "--rw=read",
                       "--bs=" + contender.block_size,
                       "--iodepth=" + std::to_string(contender.depth),
                       "--ioengine=libaio",
                       "--direct=1",
                       "--name=volume-initialize"};
      break;
    case Method::cat:
      command.words = {
          "/bin/sh", "-c",
          "cd \"$0\" && find . -xdev -type f -print0 | xargs -0 -P 8 -n 16 cat >/dev/null",
          places.root};
      break;
    case Method::ours:
      command.words = {places.self,
                       "--warm",
                       places.disk,
                       places.root,
                       places.file_system,
                       std::to_string(places.partition_offset),
                       std::to_string(places.partition_bytes),
                       places.list_file,
                       places.lineage,
                       places.held_file,
                       contender.without_ring ? "pread" : "automatic"};
      break;
  }
  return command;
}

}  // namespace warmroot::bench
