// A volume with a bandwidth, for bench/hotpath_bench.py: serves IMAGE as DIRECTORY/volume until its standard input ends.
// Usage: hotpath_volume DIRECTORY BACKING_DIRECTORY IMAGE SIZE_BYTES MIB_S
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/sim/ebs.hpp"

int main(int argc, char** argv) {
  using namespace warmroot;
  if (argc != 6) return 2;
  sim::VolumeProfile profile;
  profile.guest_bandwidth_mib_s = std::atof(argv[5]);
  sim::EbsServer server({.mount_dir = argv[1], .backing_dir = argv[2], .profile = profile});
  Ok done = server.start();
  if (done) done = server.create_volume("volume", argv[3], std::strtoull(argv[4], nullptr, 10));
  if (!done) {
    std::fprintf(stderr, "hotpath_volume: %s\n", done.error().message().c_str());
    return 1;
  }
  server.mark_all_present("volume");
  std::puts("serving");
  std::fflush(stdout);
  for (char byte = 0; ::read(STDIN_FILENO, &byte, 1) > 0;) {
  }
  return 0;
}
