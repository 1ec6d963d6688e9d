#include "bootstrap/warm/warm_progress_json.hpp"

#include <nlohmann/json.hpp>

namespace warmroot::warm {
namespace {

nlohmann::json latency_json(const LatencySummary& summary) {
  return {{"count", summary.count},   {"p50_us", summary.p50_us},
          {"p90_us", summary.p90_us}, {"p99_us", summary.p99_us},
          {"max_us", summary.max_us}, {"bucket_error", LatencyHistogram::kBucketError}};
}

}  // namespace

nlohmann::json to_json(const WarmProgress& progress) {
  nlohmann::json json = {
      {"state", to_string(progress.state)},
      {"needed_blocks", progress.needed_blocks},
      {"device_blocks", progress.device_blocks},
      {"present_blocks", progress.present_blocks},
      {"present_device_blocks", progress.present_device_blocks},
      {"blocks_read", progress.blocks_read},
      {"bytes_read", progress.bytes_read},
      {"warmth", progress.warmth},
      {"device_warmth", progress.device_warmth()},
      {"elapsed_ms", progress.elapsed_ms},
      {"eta_ms", nullptr},
      {"engine", progress.engine},
      {"depth", progress.depth},
      {"errors", progress.errors},
      {"resumed_blocks", progress.resumed_blocks},
      {"hot_blocks", progress.hot_blocks},
      {"hot_present", progress.hot_present},
      {"hot_ms", nullptr},
      {"file_blocks", progress.file_blocks},
      {"needed_source", progress.needed_source},
      {"first_touch", latency_json(progress.first_touch)},
      {"warm_reads", latency_json(progress.warm_reads)},
  };
  if (progress.hot_ms) json["hot_ms"] = *progress.hot_ms;
  if (progress.eta_ms) json["eta_ms"] = *progress.eta_ms;
  if (!progress.note.empty()) json["note"] = progress.note;
  return json;
}

}  // namespace warmroot::warm
