#include "bench/warm_contenders.hpp"

#include <algorithm>
#include <charconv>

#include "bootstrap/base/units.hpp"

namespace warmroot::bench {
namespace {

/// Oracle: as many in flight as a loop has tags, so that the volume alone is the limit.
constexpr unsigned kOracleDepth = 128;
/// Of a block that is only touched.
constexpr unsigned kFioPageKib = 4;

std::optional<Contender> find(std::string_view name) {
  for (const Contender& contender : all_contenders())
    if (contender.name == name) return contender;
  return {};
}

bool takes_depth(Method method) {
  switch (method) {
    case Method::oracle:
    case Method::dd:
    case Method::fio:
    case Method::touch:
    case Method::cat:
      return true;
    case Method::none:
    case Method::local:
    case Method::ours:
      return false;
  }
  return false;
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
      !takes_depth(contender->method))
    return fail(ErrorKind::misconfigured,
                "\"" + std::string(word) +
                    "\": only dd, fio, touch, cat and oracle take a depth, from 1 on");
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
      {.name = "fio256k",
       .method = Method::fio,
       .depth = 128,
       .block_size = "256k",
       .jobs = 10,
       .what =
           "fio bs=256k iodepth=128 in ten jobs, a tenth of the device each (TiDB's ebs-warmup)"},
      {.name = "fio4k",
       .method = Method::fio,
       .depth = 32,
       .block_size = "4k",
       .stride_kib = 512,
       .what = "fio at its best here: 4 KiB of every 512 KiB"},
      {.name = "touch",
       .method = Method::touch,
       .depth = 128,
       .what = "4 KiB of every 512 KiB of the device, 128 in flight (ebs-folder-warmer's default)"},
      {.name = "cat", .method = Method::cat, .depth = 8, .what = "cat of all files by 8 readers"},
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

namespace {

using Words = std::vector<std::string>;

/// As AWS documents it, or as many slices of the device side by side, past the page cache.
Words dd_words(const Contender& contender, const Places& places) {
  if (contender.depth == 0) return {"/usr/bin/dd", "if=" + places.disk, "of=/dev/null", "bs=1M"};
  return {"/bin/sh", "-ec",
          R"(mib=$(($(blockdev --getsize64 "$0") / 1048576))
each=$(((mib + $1 - 1) / $1))
pids=
for slice in $(seq 0 $(($1 - 1))); do
  dd if="$0" of=/dev/null bs=1M iflag=direct skip=$((slice * each)) count="$each" &
  pids="$pids $!"
done
for pid in $pids; do wait "$pid"; done)",
          places.disk, std::to_string(contender.depth)};
}

Words fio_words(const Contender& contender, const Places& places) {
  Words words = {"/usr/bin/fio",
                 "--filename=" + places.disk,
                 "--rw=read",
                 "--bs=" + contender.block_size,
                 "--iodepth=" + std::to_string(contender.depth),
                 "--ioengine=libaio",
                 "--direct=1",
                 "--name=volume-initialize"};
  if (contender.stride_kib > 0) {
    // Without a number it goes round until it has read as many bytes as the device has.
    const std::uint64_t strides = places.disk_bytes / (contender.stride_kib * kKiB);
    words[2] += ":" + std::to_string(contender.stride_kib - kFioPageKib) + "k";
    words.push_back("--number_ios=" + std::to_string(strides));
  }
  if (contender.jobs > 1) {
    const std::string share = std::to_string(100 / contender.jobs) + "%";
    words.insert(words.end(), {"--numjobs=" + std::to_string(contender.jobs),
                               "--offset_increment=" + share, "--size=" + share});
  }
  return words;
}

}  // namespace

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
      command.words = dd_words(contender, places);
      break;
    case Method::fio:
      command.words = fio_words(contender, places);
      break;
    case Method::cat:
      command.words = {"/bin/sh", "-c",
                       "cd \"$0\" && find . -xdev -type f -print0 | "
                       "xargs -0 -P \"$1\" -n 16 cat >/dev/null",
                       places.root, std::to_string(contender.depth)};
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
