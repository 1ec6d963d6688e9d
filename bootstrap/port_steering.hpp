// Leads new TCP connections to some ports of this network namespace to other listening sockets than
// those that are bound there, and back: a BPF program of type sk_lookup (Linux 5.9), which the
// kernel asks before it looks for a listener. The sockets at the ports go on listening: whatever
// the program does not know, it leaves to them. Nothing is reloaded, no packet is changed, and no
// connection that exists is touched. Used by sshd_door; raw bpf(2), no library.
//
// The program is there for as long as this process holds its descriptor: where it ends in any way,
// the kernel takes the program away.
// Source: Documentation/bpf/prog_sk_lookup.rst, map_sockmap.rst of the kernel.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::bootstrap {

enum class IpFamily : std::uint32_t { v4 = 0, v6 = 1 };  ///< keys of the map

/// The program: connections to `ports` go to the socket that the map holds for their family, all
/// others, and those of a family without a socket, where they would go anyway. Pure.
std::vector<bpf_insn> steering_program(const std::vector<std::uint16_t>& ports, int map_fd);

class PortSteering {
 public:
  /// Loads the program; it is not asked yet. Errors: misconfigured where this kernel has no such
  /// program or does not let us, one sentence.
  static Result<PortSteering> load(const std::vector<std::uint16_t>& ports);

  /// The listening socket that gets this family's connections, instead of the one before. When it
  /// closes, whoever closes it, the kernel forgets it. The descriptor may be closed afterwards.
  Ok set(IpFamily family, int listening_socket);
  bool has(IpFamily family) const;

  /// From now on, at once. Errors: errno's.
  Ok begin();
  /// Until now. The sockets are not touched.
  void stop() { link_.reset(); }

 private:
  PortSteering(UniqueFd map, UniqueFd program)
      : map_(std::move(map)), program_(std::move(program)) {}
  UniqueFd map_, program_, link_;
};

}  // namespace warmroot::bootstrap
