// See the header. What is realistic here: the bytes (form bodies in, XML out), the buckets, the
// latencies; what is not: TLS and the kernel's network, which neither process pays for.
#include "bench/scale_world.hpp"

#include <algorithm>
#include <cmath>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/form.hpp"
#include "manager/core/model.hpp"
#include "manager/core/token.hpp"

namespace warmroot::bench {

namespace {

constexpr const char* kDeployment = "bench";
constexpr const char* kBaseAmi = "ami-02000000000000002";
constexpr const char* kSnapshot = "snap-01000000000000001";
constexpr std::size_t kInFlight = 64;  ///< HttpTransport's connections
constexpr double kFaultShare = 0.05;
constexpr Milliseconds kStormAt{60'000};
constexpr Milliseconds kStormWatched{150'000};

std::string pool_of(std::size_t node) {
  return "pool" + std::to_string(node / kNodesOfPool);
}
std::string node_of(std::size_t node) {
  return core::node_name(pool_of(node), static_cast<int>(node % kNodesOfPool));
}
std::string zone_of(std::size_t node) {
  return node % kNodesOfPool % 2 == 0 ? "us-east-1a" : "us-east-1b";
}

sim::Catalog catalog() {
  auto made = sim::builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"});
  for (std::size_t i = 0; i < made.subnets.size(); ++i)
    made.subnets[i].cidr = "10." + std::to_string(10 + i) + ".0.0/16";
  return made;
}

std::string word_after(const std::string& text, const std::string& key) {
  const auto at = text.find(key + "=");
  if (at == std::string::npos) return {};
  const auto begin = at + key.size() + 1;
  return text.substr(begin, text.find(' ', begin) - begin);
}

/// What the region leaves out of an instance and EC2 does not: its network interface, about 3.5 KB.
const std::string& network_interface() {
  static const std::string kText = [] {
    std::string groups;
    for (int i = 0; i < 12; ++i)
      groups +=
          "\n                    <item>\n                        "
          "<groupId>sg-0123456789abcde0" +
          std::to_string(i % 10) +
          "</groupId>\n                        <groupName>research-workstations-" +
          std::to_string(i) + "</groupName>\n                    </item>";
    return "<networkInterfaceSet><item>"
           "<networkInterfaceId>eni-0123456789abcdef0</networkInterfaceId>"
           "<subnetId>subnet-0123456789abcdef0</subnetId><vpcId>vpc-0123456789abcdef0</vpcId>"
           "<description>warmroot</description><ownerId>111122223333</ownerId>"
           "<status>in-use</status><macAddress>0a:ff:dc:00:11:22</macAddress>"
           "<privateIpAddress>10.0.17.23</privateIpAddress>"
           "<privateDnsName>ip-10-0-17-23.ec2.internal</privateDnsName>"
           "<sourceDestCheck>true</sourceDestCheck><groupSet>" +
           groups +
           "</groupSet><attachment><attachmentId>eni-attach-0123456789abcdef0</attachmentId>"
           "<deviceIndex>0</deviceIndex><status>attached</status>"
           "<attachTime>2026-11-21T08:00:00.000Z</attachTime>"
           "<deleteOnTermination>true</deleteOnTermination><networkCardIndex>0</networkCardIndex>"
           "</attachment><privateIpAddressesSet><item>"
           "<privateIpAddress>10.0.17.23</privateIpAddress><primary>true</primary></item>"
           "</privateIpAddressesSet><ipv6AddressesSet/><interfaceType>interface</interfaceType>"
           "</item></networkInterfaceSet>";
  }();
  return kText;
}

std::size_t complete_instances(std::string& body) {
  static constexpr std::string_view kEmpty = "<networkInterfaceSet/>";
  std::string out;
  std::size_t count = 0;
  std::size_t from = 0;
  for (auto at = body.find(kEmpty); at != std::string::npos; at = body.find(kEmpty, from)) {
    out.append(body, from, at - from);
    out += network_interface();
    from = at + kEmpty.size();
    ++count;
  }
  out.append(body, from);
  body = std::move(out);
  return count;
}

}  // namespace

std::string_view to_string(CaseKind kind) {
  switch (kind) {
    case CaseKind::running:
      return "running";
    case CaseKind::launch:
      return "launch";
    case CaseKind::storm:
      return "storm";
    case CaseKind::faults:
      return "faults";
  }
  return "running";
}

double Dice::lognormal(double median, double sigma) {
  const double first = std::max(unit(), 1e-12);
  const double normal =
      std::sqrt(-2 * std::log(first)) * std::cos(2 * 3.14159265358979323846 * unit());
  return median * std::exp(sigma * normal);
}

Milliseconds latency_of(std::string_view action, Dice& dice) {
  double median = 150;
  if (aws::is_read(action)) median = 70;
  if (action == "AttachVolume" || action == "CreateVolume") median = 250;
  if (action == "RunInstances" || action == "CreateFleet") median = 1000;
  return Milliseconds(static_cast<Milliseconds::rep>(dice.lognormal(median, 0.35)));
}

sim::RegionTimes bench_times(double jitter) {
  sim::RegionTimes times;
  times.jitter = jitter;
  return times;
}

Instant World::start() {
  return Instant{std::chrono::hours{24 * 20'000}};
}

World::World(const CaseOptions& options)
    : options_(options),
      dice_(options.seed * 7919 + 1),
      faults_(options.seed * 7919 + 2),
      region_(catalog(), bench_times(options.jitter), hardware_, start() - std::chrono::hours{1},
              options.seed * 7919 + 3),
      front_(region_) {
  region_.knobs.volume_limit = 100'000;
  set_up();
  front_.set_throttle_scale(1.0);
  began_ = start() + options_.lead;
  at(began_, [this] {
    calls_.clear();
    throttled_ = 0;
    instance_bytes_ = instances_shown_ = 0;
  });
  limit_ = began_ + std::chrono::hours{4};
  region_.on_event = [this](const std::string& event) { heed(event); };
  if (options_.kind == CaseKind::storm) start_storm(began_ + kStormAt);
}

/// Everything exists an hour before the run, but what the case is about.
void World::set_up() {
  if (options_.kind == CaseKind::launch) return region_.advance(start());
  const auto nodes = static_cast<std::size_t>(options_.nodes);
  std::vector<std::string> volumes;
  std::vector<std::string> instances;
  for (std::size_t node = 0; node < nodes; ++node) {
    sim::CreateVolumeArgs volume;
    volume.zone = zone_of(node);
    volume.snapshot_id = kSnapshot;
    volume.type = "gp3";
    volume.tags = {{core::kTagDeployment, kDeployment},
                   {core::kTagPool, pool_of(node)},
                   {core::kTagNode, node_of(node)},
                   {core::kTagLineage, kSnapshot},
                   {"Name", "warmroot " + node_of(node)}};
    volumes.push_back(region_.create_volume(volume).value().id);
    sim::RunInstancesArgs launch;
    launch.image_id = kBaseAmi;
    launch.type = "g5.xlarge";
    launch.zone = zone_of(node);
    launch.spot = true;
    launch.client_token = core::client_token(
        {kDeployment, "RunInstances", pool_of(node), node_of(node), 0, zone_of(node)});
    launch.instance_tags = {{core::kTagDeployment, kDeployment},
                            {core::kTagPool, pool_of(node)},
                            {"Name", "warmroot " + pool_of(node)}};
    instances.push_back(region_.run_instances(launch).value().front().id);
  }
  pool_volumes_.insert(volumes.begin(), volumes.end());
  region_.advance_by(std::chrono::minutes{1});
  if (options_.kind == CaseKind::storm)
    for (std::size_t node = 0; node < nodes; ++node)
      CHECK(region_.attach_volume(volumes[node], instances[node], "/dev/sdf").has_value());
  region_.advance(start());
  if (options_.kind != CaseKind::storm) return;
  for (std::size_t node = 0; node < nodes; ++node)
    reports_.push_back(instances[node] + " " + volumes[node] + " ready");
}

// ---- the storm ----

void World::start_storm(Instant when) {
  storm_at_ = when;
  at(when, [this] {
    for (const auto& [id, volume] : region_.volumes())
      if (pool_volumes_.contains(id) && volume.link) struck_.insert(id);
    for (const auto& id : struck_) {
      const std::string instance = region_.volume(id)->link->instance_id;
      CHECK(region_.interrupt(instance).has_value());
      drain(instance);
    }
  });
}

/// A guest hears of its notice within a second or two, drains (most within half a minute, a few
/// hardly in time), unmounts, says so and then ends itself.
void World::drain(const std::string& instance_id) {
  std::string volume_id;
  for (const auto& id : struck_)
    if (const auto* volume = region_.volume(id); volume->link->instance_id == instance_id)
      volume_id = id;
  const auto ms = [](double value) { return Milliseconds(static_cast<Milliseconds::rep>(value)); };
  const Instant heard = region_.now() + ms(200 + 1300 * dice_.unit());
  const Instant unmounted = heard + ms(std::min(90'000.0, dice_.lognormal(15'000, 0.6)));
  at(heard, [=, this] { reports_.push_back(instance_id + " " + volume_id + " draining"); });
  at(unmounted, [=, this] {
    unmounted_.insert(volume_id);
    reports_.push_back(instance_id + " " + volume_id + " released");
  });
  at(unmounted + ms(1000), [=, this] { hardware_.machines.erase(instance_id); });
}

// ---- time ----

double World::seconds(Instant at) const {
  return std::chrono::duration<double>(at - began_).count();
}

void World::advance(Instant to) {
  while (!events_.empty() && events_.begin()->first <= to) {
    auto event = events_.extract(events_.begin());
    region_.advance(std::max(event.key(), region_.now()));
    event.mapped()();
  }
  region_.advance(std::max(to, region_.now()));
}

void World::hint(const std::string& id) {
  if (!options_.events) return;
  // EventBridge and SQS take a second or so; reports are faster.
  const auto delay = Milliseconds(static_cast<Milliseconds::rep>(dice_.lognormal(700, 0.5)));
  at(region_.now() + delay, [this, id] { hints_.push_back(id); });
}

/// The region says in words what changed.
void World::heed(const std::string& event) {
  const Instant now = region_.now();
  const std::string volume = word_after(event, "volume");
  const std::string instance = word_after(event, "instance");
  const auto waited = [&](const std::string& id) {
    return std::chrono::duration<double>(now - since_[id]).count();
  };
  const double up = std::chrono::duration<double>(current_up_).count();
  if (event.starts_with("create volume")) {
    by_volume_[volume].create_call_s = up;
    since_[volume] = now;
    pool_volumes_.insert(volume);
  } else if (event.starts_with("launch volume=")) {
    pool_volumes_.insert(volume);
    came_with_[instance] = volume;
  } else if (event.starts_with("launch ")) {
    by_instance_[instance].run_call_s = up;
    since_[instance] = now;
  } else if (event.starts_with("running ")) {
    by_instance_[instance].pending_s = waited(instance);
    hint(instance);
    running_.insert(instance);
    count_launched(instance);
  } else if (event.starts_with("attaching ")) {
    by_volume_[volume].attach_call_s = up;
    by_volume_[volume].attached_as = attached_before_++;
    since_[volume] = now;
    if (!first_attach_) first_attach_ = now;
    last_attach_ = now;
  } else if (event.starts_with("attached ")) {
    by_volume_[volume].attaching_s = waited(volume);
    attached_.insert(volume);
    done_ = now;
    hint(volume);
  } else if (event.starts_with("available ")) {
    attached_.erase(volume);
    if (struck_.contains(volume) && now <= *storm_at_ + Milliseconds(120'000))
      freed_.insert(volume);
    hint(volume);
  } else if (event.starts_with("terminated ") || event.starts_with("shutting down")) {
    hint(instance);
  }
}

/// A volume that came with its launch serves once the instance runs and the manager has claimed it
/// for a node, whose name it may get later: before that the bootstrap waits.
void World::count_launched(const std::string& instance) {
  const auto came = came_with_.find(instance);
  if (came == came_with_.end() || !running_.contains(instance)) return;
  const auto* volume = region_.volume(came->second);
  if (!volume) return;
  const auto role = volume->tags.find(core::kTagRole);
  const bool claimed = role != volume->tags.end() && role->second == "node";
  if (!claimed || !attached_.insert(volume->id).second) return;
  done_ = region_.now();
}

bool World::finished() const {
  if (region_.now() >= limit_) return true;
  if (storm_at_) return region_.now() >= *storm_at_ + kStormWatched;
  return attached_.size() == static_cast<std::size_t>(options_.nodes);
}

// ---- calls ----

std::optional<sim::ApiError> World::fault_of(const std::string& action, const std::string& body) {
  if (options_.kind != CaseKind::faults) return std::nullopt;
  if (faults_.unit() < kFaultShare)
    return sim::ApiError{503, "RequestLimitExceeded", "Request limit exceeded."};
  if (action != "AttachVolume") return std::nullopt;
  const auto form = aws::parse_form(body);
  const std::string instance(aws::form_value(form, "InstanceId"));
  const std::string device(aws::form_value(form, "Device"));
  const std::string seed = std::to_string(options_.seed);
  if (core::hash_fraction({seed, "name", instance, device}) < kFaultShare)
    return sim::ApiError{400, "InvalidParameterValue",
                         "Invalid value '" + device + "' for unixDevice. Attachment point " +
                             device + " is already in use"};
  if (core::hash_fraction({seed, "pending", instance}) < kFaultShare) {
    const auto [until, is_new] =
        not_running_until_.try_emplace(instance, region_.now() + Milliseconds(1500));
    if (region_.now() < until->second)
      return sim::ApiError{400, "IncorrectState", "Instance '" + instance + "' is not 'running'."};
  }
  return std::nullopt;
}

sim::QueryReply World::execute(const std::string& body, Milliseconds up) {
  const std::string action = [&] {
    const auto begin = body.find("Action=") + 7;
    return body.substr(begin, body.find('&', begin) - begin);
  }();
  ++calls_[action];
  current_up_ = up;
  const auto fault = fault_of(action, body);
  auto reply = fault ? front_.error(*fault) : front_.answer(body);
  current_up_ = Milliseconds(0);
  if (reply.code == "RequestLimitExceeded") ++throttled_;
  if (action == "DescribeInstances") {
    const auto shown = complete_instances(reply.body);
    if (shown > 0) instance_bytes_ += reply.body.size();
    instances_shown_ += shown;
  }
  if (action == "CreateTags" && reply.code.empty()) {
    const auto form = aws::parse_form(body);
    for (int i = 1;; ++i) {
      const std::string id(aws::form_value(form, "ResourceId." + std::to_string(i)));
      if (id.empty()) break;
      if (const auto* volume = region_.volume(id); volume && volume->link)
        count_launched(volume->link->instance_id);
    }
  }
  front_.forget_calls();
  return reply;
}

/// Calls that go out together: each is executed when its request has arrived, and the last answer
/// ends the wait.
void World::post_together(std::vector<const std::string*> bodies,
                          std::vector<sim::QueryReply>& replies) {
  const Instant sent = region_.now();
  struct Arrival {
    Milliseconds up;
    Milliseconds down;
    std::size_t place;
  };
  std::vector<Arrival> arrivals;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const auto begin = bodies[i]->find("Action=") + 7;
    const auto action =
        std::string_view(*bodies[i]).substr(begin, bodies[i]->find('&', begin) - begin);
    const auto both = latency_of(action, dice_);
    arrivals.push_back({both / 2, both - both / 2, i});
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& left, const Arrival& right) { return left.up < right.up; });
  const std::size_t first = replies.size();
  replies.resize(first + bodies.size());
  Instant over = sent;
  for (const auto& arrival : arrivals) {
    advance(sent + arrival.up);
    auto& reply = replies[first + arrival.place];
    reply = execute(*bodies[arrival.place], arrival.up);
    const double size_ms = static_cast<double>(reply.body.size()) / 1024 * kMsPerKilobyte;
    over = std::max(over, sent + arrival.up + arrival.down +
                              Milliseconds(static_cast<Milliseconds::rep>(size_ms)));
  }
  advance(over);
}

void World::put_news(Frame& frame) {
  frame.put(region_.now().time_since_epoch().count()).put(std::int64_t{finished()});
  frame.put(static_cast<std::int64_t>(hints_.size()));
  for (const auto& id : hints_) frame.put(id);
  hints_.clear();
  frame.put(static_cast<std::int64_t>(reports_.size()));
  for (const auto& report : reports_) frame.put(report);
  reports_.clear();
}

void World::answer_post(Frame& frame, int fd) {
  std::vector<std::string> bodies(static_cast<std::size_t>(frame.number()));
  for (auto& body : bodies) body = frame.text();
  std::vector<sim::QueryReply> replies;
  for (std::size_t first = 0; first < bodies.size(); first += kInFlight) {
    std::vector<const std::string*> batch;
    for (auto i = first; i < std::min(bodies.size(), first + kInFlight); ++i)
      batch.push_back(&bodies[i]);
    post_together(batch, replies);
  }
  Frame news;
  put_news(news);
  send_frame(fd, news);
  for (auto& reply : replies) {
    send_frame(fd, Frame().put(reply.status));
    send_frame(fd, Frame(std::move(reply.body)));
  }
}

std::string World::serve(int fd) {
  for (;;) {
    Frame frame = receive_frame(fd);
    const auto what = frame.number();
    if (what == kFinished) return frame.text();
    if (what == kPost) {
      answer_post(frame, fd);
      continue;
    }
    const Instant until = region_.now() + Milliseconds(frame.number());
    // What wakes the daemon wakes it here: a hint or a report ends the sleep.
    while (hints_.empty() && reports_.empty() && region_.now() < until && !finished()) {
      Instant next = until;
      if (!events_.empty()) next = std::min(next, events_.begin()->first);
      // In steps, so that hints of what happens meanwhile come at their time.
      next = std::min(next, region_.now() + Milliseconds(50));
      advance(std::max(next, region_.now() + Milliseconds(1)));
    }
    Frame news;
    put_news(news);
    send_frame(fd, news);
  }
}

// ---- afterwards ----

Sight World::sight() const {
  Sight sight;
  std::map<std::string, int> of_instance;
  for (const auto& id : pool_volumes_) {
    const auto* volume = region_.volume(id);
    if (!volume || !volume->link || volume->link->state != sim::LinkState::attached) continue;
    ++sight.served;
    if (++of_instance[volume->link->instance_id] > 1) ++sight.served_twice;
    NodeWaits waits;
    if (const auto found = by_volume_.find(id); found != by_volume_.end()) waits = found->second;
    if (const auto found = by_instance_.find(volume->link->instance_id);
        found != by_instance_.end()) {
      waits.run_call_s = found->second.run_call_s;
      waits.pending_s = found->second.pending_s;
    }
    sight.waits.push_back(waits);
  }
  sight.done_s = seconds(done_);
  if (first_attach_) sight.first_attach_s = seconds(*first_attach_);
  sight.last_attach_s = first_attach_ ? seconds(last_attach_) : 0;
  sight.calls = calls_;
  for (const auto& [action, count] : calls_)
    (aws::is_read(action) ? sight.describing_calls : sight.mutating_calls) += count;
  if (const auto found = calls_.find("AttachVolume"); found != calls_.end())
    sight.attach_calls = found->second;
  sight.throttled_calls = throttled_;
  if (!struck_.empty()) {
    const auto share = [&](const auto& set) {
      return static_cast<double>(set.size()) / static_cast<double>(struck_.size());
    };
    sight.released_share = share(freed_);
    sight.unmounted_share = share(unmounted_);
  }
  if (instances_shown_ > 0)
    sight.bytes_per_instance =
        static_cast<double>(instance_bytes_) / static_cast<double>(instances_shown_);
  sight.finished = region_.now() < limit_;
  return sight;
}

}  // namespace warmroot::bench
