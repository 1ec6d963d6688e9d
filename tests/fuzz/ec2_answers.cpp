// Whatever an endpoint answers, decoding it ends in a value or an Error. The first byte chooses decoder and status.
#include <cstddef>
#include <cstdint>
#include <string>

#include "manager/aws/ec2_codec.hpp"

using namespace warmroot;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  HttpReply reply;
  reply.status = (data[0] & 0x80) != 0 ? 503 : 200;
  reply.headers["content-type"] = "text/xml;charset=UTF-8";
  reply.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] & 0x0f) {
    case 0: (void)aws::decode_volumes(reply); break;
    case 1: (void)aws::decode_instances(reply); break;
    case 2: (void)aws::decode_instance_status(reply); break;
    case 3: (void)aws::decode_snapshots(reply); break;
    case 4: (void)aws::decode_images(reply); break;
    case 5: (void)aws::decode_availability_zones(reply); break;
    case 6: (void)aws::decode_subnets(reply); break;
    case 7: (void)aws::decode_spot_prices(reply); break;
    case 8: (void)aws::decode_answer("RunInstances", reply); break;
    case 9: (void)aws::decode_answer("CreateVolume", reply); break;
    case 10: (void)aws::decode_answer("AttachVolume", reply); break;
    default: (void)aws::code_of(reply); break;
  }
  return 0;
}
