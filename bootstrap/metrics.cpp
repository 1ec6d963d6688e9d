#include "bootstrap/metrics.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <utility>

namespace warmroot::bootstrap {
namespace {

constexpr double kMicrosecondsPerSecond = 1e6;
constexpr double kMillisecondsPerSecond = 1e3;

/// A label's value; node names and stages come from elsewhere.
std::string label_value(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", number);
  return text;
}

class Metrics {
 public:
  explicit Metrics(const Status& status)
      : labels_("deployment=" + label_value(status.deployment) + ",pool=" +
                label_value(status.pool) + ",node=" + label_value(status.node.value_or("")) +
                ",volume_id=" + label_value(status.volume_id.value_or("")) +
                ",instance_id=" + label_value(status.instance_id)) {}

  void head(const char* name, const char* type, const char* help) {
    text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }

  void value(const std::string& name, double value, const std::string& label = {}) {
    text_ += name + "{" + labels_ + (label.empty() ? "" : "," + label) + "} " + number_text(value) +
             "\n";
  }

  void one(const char* name, const char* type, const char* help, double of) {
    head(name, type, help);
    value(name, of);
  }

  /// A gauge that is there once it is known.
  void seconds(const char* name, const char* help, std::optional<std::uint64_t> milliseconds) {
    if (milliseconds)
      one(name, "gauge", help, static_cast<double>(*milliseconds) / kMillisecondsPerSecond);
  }

  void latency(const char* name, const char* help, const warm::LatencySummary& of) {
    head(name, "histogram", help);
    const std::string bucket = std::string(name) + "_bucket";
    for (std::size_t edge = 0; edge < of.below.size(); ++edge) {
      const double seconds =
          static_cast<double>(warm::LatencySummary::edge_us(edge)) / kMicrosecondsPerSecond;
      value(bucket, static_cast<double>(of.below[edge]), "le=" + label_value(number_text(seconds)));
    }
    value(bucket, static_cast<double>(of.count), "le=\"+Inf\"");
    value(std::string(name) + "_sum", static_cast<double>(of.sum_us) / kMicrosecondsPerSecond);
    value(std::string(name) + "_count", static_cast<double>(of.count));
  }

  std::string text() && { return std::move(text_); }

 private:
  std::string labels_;
  std::string text_;
};

void add_ebs(Metrics& metrics, const EbsStatistics& ebs) {
  const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
  const auto pair = [&](const char* name, const char* help, double read, double write) {
    metrics.head(name, "counter", help);
    metrics.value(name, read, "direction=\"read\"");
    metrics.value(name, write, "direction=\"write\"");
  };
  pair("warmroot_ebs_operations_total", "Since the volume was attached, by EBS' count.",
       number(ebs.read_operations), number(ebs.write_operations));
  pair("warmroot_ebs_bytes_total", "Since the volume was attached, by EBS' count.",
       number(ebs.read_bytes), number(ebs.write_bytes));
  pair("warmroot_ebs_seconds_total", "Time in these operations, by EBS' count.",
       number(ebs.read_us) / kMicrosecondsPerSecond, number(ebs.write_us) / kMicrosecondsPerSecond);
  constexpr const char* kExceeded = "warmroot_ebs_exceeded_seconds_total";
  metrics.head(kExceeded, "counter", "Time in which more was asked for than the limit allows.");
  for (const auto& [limit, microseconds] :
       std::initializer_list<std::pair<const char*, std::uint64_t>>{
           {"volume_iops", ebs.volume_iops_exceeded_us},
           {"volume_throughput", ebs.volume_throughput_exceeded_us},
           {"instance_iops", ebs.instance_iops_exceeded_us},
           {"instance_throughput", ebs.instance_throughput_exceeded_us}})
    metrics.value(kExceeded, number(microseconds) / kMicrosecondsPerSecond,
                  "limit=" + label_value(limit));
  metrics.one("warmroot_ebs_queue_length", "gauge", "Operations that wait at EBS just now.",
              number(ebs.queue_length));
}

}  // namespace

std::string metrics_text(const Status& status) {
  const warm::WarmProgress& warm = status.warm;
  const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
  Metrics metrics(status);
  metrics.head("warmroot_stage", "gauge", "1 for the stage that the node is in.");
  metrics.value("warmroot_stage", 1, "stage=" + label_value(to_string(status.stage)));
  metrics.head("warmroot_warming", "gauge", "1 for the state that the warmer is in.");
  metrics.value("warmroot_warming", 1, "state=" + label_value(to_string(warm.state)));
  metrics.head("warmroot_warmth_ratio", "gauge",
               "Blocks known to be on the volume, of those in use and of the whole device.");
  metrics.value("warmroot_warmth_ratio", warm.warmth, "of=\"needed\"");
  metrics.value("warmroot_warmth_ratio", warm.device_warmth(), "of=\"device\"");
  metrics.one("warmroot_needed_blocks", "gauge", "Blocks of 512 KiB that hold anything in use.",
              number(warm.needed_blocks));
  metrics.one("warmroot_device_blocks", "gauge", "Blocks of 512 KiB of the whole device.",
              number(warm.device_blocks));
  metrics.one("warmroot_present_blocks", "gauge", "Needed blocks known to be on the volume.",
              number(warm.present_blocks));
  metrics.one("warmroot_hot_blocks", "gauge", "Blocks of the hot list; 0: there is none.",
              number(warm.hot_blocks));
  metrics.one("warmroot_hot_present_blocks", "gauge", "Blocks of the hot list that are present.",
              number(warm.hot_present));
  metrics.seconds("warmroot_hot_list_seconds",
                  "From the warmer's start until all of the hot list was present.", warm.hot_ms);
  metrics.seconds("warmroot_warming_eta_seconds", "Until all needed blocks are present.",
                  warm.eta_ms);
  metrics.one("warmroot_blocks_read_total", "counter", "Blocks that the warmer brought in.",
              number(warm.blocks_read));
  metrics.one("warmroot_bytes_read_total", "counter", "Bytes that the warmer asked the device for.",
              number(warm.bytes_read));
  metrics.one("warmroot_read_errors_total", "counter", "Failed reads, retries included.",
              number(warm.errors));
  metrics.one("warmroot_reads_in_flight", "gauge", "Depth that the warmer keeps just now.",
              warm.depth);
  metrics.latency("warmroot_first_touch_seconds",
                  "Reads of blocks that no map vouched for; of those whose end was seen late only "
                  "the ones of a second and more.",
                  warm.first_touch);
  metrics.latency("warmroot_warm_read_seconds", "Sampled reads of blocks that are present.",
                  warm.warm_reads);
  if (status.ebs) add_ebs(metrics, *status.ebs);
  return std::move(metrics).text();
}

}  // namespace warmroot::bootstrap
