// Whatever an endpoint answers, decoding it ends in a value or an Error. The first byte chooses decoder and status.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "manager/aws/ebs_direct.hpp"
#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/sts.hpp"

using namespace warmroot;

namespace {

using Decoder = void (*)(const HttpReply&);

template <auto decode>
void run(const HttpReply& reply) {
  (void)decode(reply);
}

void answer_of(const char* action, const HttpReply& reply) {
  (void)aws::decode_answer(action, reply);
}

constexpr std::array kDecoders = std::to_array<Decoder>({
    run<aws::decode_volumes>,
    run<aws::decode_instances>,
    run<aws::decode_instance_status>,
    run<aws::decode_snapshots>,
    run<aws::decode_images>,
    run<aws::decode_availability_zones>,
    run<aws::decode_subnets>,
    run<aws::decode_spot_prices>,
    run<aws::decode_instance_type_offerings>,
    run<aws::decode_instance_types>,
    run<aws::decode_volume_status>,
    run<aws::decode_fast_snapshot_restores>,
    run<aws::decode_launch_templates>,
    run<aws::decode_spot_placement_scores>,
    run<aws::decode_caller_identity>,
    run<aws::decode_assumed_role>,
    run<aws::code_of>,
    run<aws::decode_snapshot_blocks>,
    [](const HttpReply& reply) { answer_of("RunInstances", reply); },
    [](const HttpReply& reply) { answer_of("CreateVolume", reply); },
    [](const HttpReply& reply) { answer_of("AttachVolume", reply); },
    [](const HttpReply& reply) { answer_of("CreateFleet", reply); },
    [](const HttpReply& reply) { answer_of("CopyVolumes", reply); },
    [](const HttpReply& reply) { answer_of("CreateSnapshot", reply); },
    [](const HttpReply& reply) { answer_of("CreateLaunchTemplate", reply); },
    [](const HttpReply& reply) { answer_of("DeleteVolume", reply); },
    [](const HttpReply& reply) { (void)aws::decode_dry_run("StopInstances", reply); },
});

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  HttpReply reply;
  reply.status = (data[0] & 0x80) != 0 ? 503 : 200;
  reply.headers["content-type"] = "text/xml;charset=UTF-8";
  reply.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  kDecoders[(data[0] & 0x7f) % kDecoders.size()](reply);
  return 0;
}
