// See ec2_client.hpp.
#include "manager/aws/ec2_client.hpp"

#include <algorithm>
#include <utility>

namespace warmroot::aws {
namespace {

/// HttpClient's word for an answer that it did not take; asking again would get the same.
constexpr std::string_view kAnswerTooLarge = "AnswerTooLarge";

/// The same read may succeed soon: EC2 throttled, had trouble, or did not answer at all.
bool may_pass(const Error& error, std::string_view action) {
  if (error.kind != ErrorKind::retry_later && error.kind != ErrorKind::unknown_outcome)
    return false;
  if (error.code == kAnswerTooLarge) return false;
  const Reaction reaction = reaction_for(error.code, action);
  return reaction == Reaction::throttled || reaction == Reaction::transient ||
         reaction == Reaction::unknown;
}

/// A failed delivery in words for the operator; what was not even tried (no credentials) speaks for
/// itself.
Error undelivered(Error error) {
  if (error.code == kAnswerTooLarge) return error;
  if (error.kind == ErrorKind::retry_later)
    error.context += ". EC2 was not reached; check the network and --endpoint-url.";
  if (error.kind == ErrorKind::unknown_outcome)
    error.context += ". The answer never came; the same request is sent again.";
  return error;
}

std::string_view action_of(std::string_view body) {
  constexpr std::string_view kStart = "Action=";
  if (!body.starts_with(kStart)) return {};
  return body.substr(kStart.size(), body.find('&') - kStart.size());
}

}  // namespace

Milliseconds full_jitter(int failures, double random) {
  Milliseconds limit = kBackoffBase;
  for (int i = 1; i < failures && limit < kBackoffCap; ++i) limit *= 2;
  limit = std::min(limit, kBackoffCap);
  return Milliseconds(static_cast<Milliseconds::rep>(random * static_cast<double>(limit.count())));
}

Ec2Client::Ec2Client(Transport& transport, Sleeper sleep, RandomSource random)
    : transport_(transport), sleep_(std::move(sleep)), random_(std::move(random)) {}

template <typename Decode>
auto Ec2Client::read(const std::string& body, Decode decode, int& allowance)
    -> decltype(decode(HttpReply{})) {
  const std::string_view action = action_of(body);
  int lost_answers = 0;
  for (int attempt = 1;; ++attempt) {
    --allowance;
    std::vector<Result<HttpReply>> replies;
    if (auto early = expected_.extract(body))
      replies.push_back(std::move(early.mapped()));
    else
      replies = transport_.post({&body, 1});
    CHECK(replies.size() == 1);
    auto result =
        replies[0]
            ? decode(*replies[0])
            : decltype(decode(HttpReply{}))(fail(undelivered(std::move(replies[0]).error())));
    if (result) return result;
    Error error = std::move(result).error();
    const bool lost = error.kind == ErrorKind::unknown_outcome;
    if (lost) ++lost_answers;
    const bool last = attempt == kMaxAttempts || lost_answers == kMaxLostAnswers || allowance <= 0;
    if (last || !may_pass(error, action)) {
      // A read changes nothing, so its outcome cannot be in doubt.
      if (lost)
        error.kind = error.code == kAnswerTooLarge ? ErrorKind::broken : ErrorKind::retry_later;
      if (attempt > 1) error.context += " Tried " + std::to_string(attempt) + " times.";
      return fail(std::move(error).within(summary_of(body)));
    }
    sleep_(full_jitter(attempt, random_()));
  }
}

Result<Page<Volume>> Ec2Client::describe_volumes(const DescribeRequest& request) {
  return read(encode(Describe::volumes, request), decode_volumes);
}

Result<Page<Instance>> Ec2Client::describe_instances(const DescribeRequest& request) {
  return read(encode(Describe::instances, request), decode_instances);
}

Result<Page<InstanceStatus>> Ec2Client::describe_instance_status(const DescribeRequest& request) {
  return read(encode(Describe::instance_status, request), decode_instance_status);
}

Result<Page<Snapshot>> Ec2Client::describe_snapshots(const DescribeRequest& request) {
  return read(encode(Describe::snapshots, request), decode_snapshots);
}

Result<Page<Image>> Ec2Client::describe_images(const DescribeRequest& request) {
  return read(encode(Describe::images, request), decode_images);
}

Result<std::vector<AvailabilityZone>> Ec2Client::describe_availability_zones() {
  return read(encode_describe_availability_zones(), decode_availability_zones);
}

Result<Page<Subnet>> Ec2Client::describe_subnets(const DescribeRequest& request) {
  return read(encode(Describe::subnets, request), decode_subnets);
}

Result<Page<SpotPrice>> Ec2Client::describe_spot_price_history(const DescribeSpotPrices& request) {
  return read(encode(request), decode_spot_prices);
}

Result<Page<InstanceTypeOffering>> Ec2Client::describe_instance_type_offerings(
    const DescribeRequest& request) {
  return read(encode(Describe::instance_type_offerings, request), decode_instance_type_offerings);
}

Result<Page<InstanceType>> Ec2Client::describe_instance_types(const DescribeRequest& request) {
  return read(encode(Describe::instance_types, request), decode_instance_types);
}

Result<Page<VolumeStatus>> Ec2Client::describe_volume_status(const DescribeRequest& request) {
  return read(encode(Describe::volume_status, request), decode_volume_status);
}

Result<Page<FastSnapshotRestore>> Ec2Client::describe_fast_snapshot_restores(
    const DescribeRequest& request) {
  return read(encode(Describe::fast_snapshot_restores, request), decode_fast_snapshot_restores);
}

Result<Page<LaunchTemplate>> Ec2Client::describe_launch_templates(const DescribeRequest& request) {
  return read(encode(Describe::launch_templates, request), decode_launch_templates);
}

Result<std::vector<SpotPlacementScore>> Ec2Client::get_spot_placement_scores(
    const GetSpotPlacementScores& request) {
  return read(encode(request), decode_spot_placement_scores);
}

Ok Ec2Client::dry_run(const Mutation& mutation, int& allowance) {
  const std::string action = encode(mutation).action;
  return read(
      encode_dry_run(mutation),
      [&action](const HttpReply& reply) { return decode_dry_run(action, reply); }, allowance);
}

void Ec2Client::expect(const std::vector<std::string>& bodies) {
  if (bodies.empty()) expected_.clear();
  if (bodies.size() < 2) return;  // nothing to go together with
  auto replies = transport_.post(bodies);
  CHECK(replies.size() == bodies.size());
  for (std::size_t i = 0; i < bodies.size(); ++i)
    expected_.insert_or_assign(bodies[i], std::move(replies[i]));
}

std::vector<Result<MutationAnswer>> Ec2Client::send(std::span<const EncodedCall> calls) {
  expected_.clear();  // made before what these calls do
  std::vector<std::string> bodies;
  for (const auto& call : calls) bodies.push_back(call.body);
  std::vector<Result<MutationAnswer>> results;
  if (bodies.empty()) return results;
  std::vector<Result<HttpReply>> replies = transport_.post(bodies);
  CHECK(replies.size() == calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    auto result = replies[i]
                      ? decode_answer(calls[i].action, *replies[i])
                      : Result<MutationAnswer>(fail(undelivered(std::move(replies[i]).error())));
    if (!result) result = fail(std::move(result).error().within(summary_of(calls[i].body)));
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace warmroot::aws
