#include "bootstrap/port_steering.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace warmroot::bootstrap {
namespace {

constexpr std::uint32_t kFamilies = 2;

int call_bpf(bpf_cmd command, bpf_attr& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

std::uint64_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

// the few instructions that the program is made of, by the names of the kernel's documentation

using Register = std::uint8_t;

bpf_insn instruction(int code, Register to, Register from, std::ptrdiff_t offset,
                     std::int32_t value) {
  bpf_insn made{};
  made.code = static_cast<std::uint8_t>(code);
  made.dst_reg = to & 0xf;
  made.src_reg = from & 0xf;
  made.off = static_cast<std::int16_t>(offset);
  made.imm = value;
  return made;
}
bpf_insn move(Register to, Register from) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
bpf_insn move_value(Register to, std::int32_t value) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}
bpf_insn add_value(Register to, std::int32_t value) {
  return instruction(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value);
}
bpf_insn load_word(Register to, Register from, std::ptrdiff_t offset) {
  return instruction(BPF_LDX | BPF_MEM | BPF_W, to, from, offset, 0);
}
bpf_insn store_word(Register to, std::ptrdiff_t offset, Register from) {
  return instruction(BPF_STX | BPF_MEM | BPF_W, to, from, offset, 0);
}
bpf_insn call(std::int32_t function) {
  return instruction(BPF_JMP | BPF_CALL, 0, 0, 0, function);
}

/// Appends, and lets jumps be aimed once it is known where.
class Program {
 public:
  void add(bpf_insn instruction) { code_.push_back(instruction); }
  /// A jump that is aimed later; `condition` compares a register with a value.
  std::size_t jump_if(int condition, Register left, std::int32_t value) {
    add(instruction(BPF_JMP | condition | BPF_K, left, 0, 0, value));
    return code_.size() - 1;
  }
  /// Here is where this jump goes.
  void aim(std::size_t jump) {
    code_[jump].off = static_cast<std::int16_t>(code_.size() - jump - 1);
  }
  std::vector<bpf_insn> take() { return std::move(code_); }

 private:
  std::vector<bpf_insn> code_;
};

/// Before Linux 5.11 BPF counts as locked memory, of which a process may have 64 KiB.
class NoMemoryLimit {
 public:
  NoMemoryLimit() : known_(::getrlimit(RLIMIT_MEMLOCK, &before_) == 0) {
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_MEMLOCK, &none);
  }
  ~NoMemoryLimit() {
    if (known_) ::setrlimit(RLIMIT_MEMLOCK, &before_);
  }
  NoMemoryLimit(const NoMemoryLimit&) = delete;
  NoMemoryLimit& operator=(const NoMemoryLimit&) = delete;

 private:
  rlimit before_{};
  const bool known_;
};

/// EINVAL is what a kernel says that does not know the type.
tl::unexpected<Error> cannot(const std::string& what) {
  Error error = errno_error(what, errno);
  error.kind = ErrorKind::misconfigured;
  error.context += "; taking the port over needs BPF sk_lookup, which Linux has from 5.9 on";
  return fail(std::move(error));
}

}  // namespace

std::vector<bpf_insn> steering_program(const std::vector<std::uint16_t>& ports, int map_fd) {
  constexpr Register kResult = BPF_REG_0, kContext = BPF_REG_6, kSocket = BPF_REG_7;
  constexpr int kKeyOnStack = -4;
  Program program;
  program.add(move(kContext, BPF_REG_1));
  program.add(load_word(BPF_REG_2, kContext, offsetof(bpf_sk_lookup, protocol)));
  std::vector<std::size_t> to_end{program.jump_if(BPF_JNE, BPF_REG_2, IPPROTO_TCP)};
  program.add(load_word(BPF_REG_2, kContext, offsetof(bpf_sk_lookup, local_port)));
  std::vector<std::size_t> to_steer;
  for (const std::uint16_t port : ports)
    to_steer.push_back(program.jump_if(BPF_JEQ, BPF_REG_2, port));
  to_end.push_back(program.jump_if(BPF_JA, 0, 0));
  for (const std::size_t jump : to_steer) program.aim(jump);

  program.add(move_value(BPF_REG_3, static_cast<std::int32_t>(IpFamily::v4)));
  program.add(load_word(BPF_REG_2, kContext, offsetof(bpf_sk_lookup, family)));
  const std::size_t is_v4 = program.jump_if(BPF_JEQ, BPF_REG_2, AF_INET);
  program.add(move_value(BPF_REG_3, static_cast<std::int32_t>(IpFamily::v6)));
  program.aim(is_v4);
  program.add(store_word(BPF_REG_10, kKeyOnStack, BPF_REG_3));
  // The map's address takes two instructions.
  program.add(instruction(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map_fd));
  program.add(bpf_insn{});
  program.add(move(BPF_REG_2, BPF_REG_10));
  program.add(add_value(BPF_REG_2, kKeyOnStack));
  program.add(call(BPF_FUNC_map_lookup_elem));
  to_end.push_back(program.jump_if(BPF_JEQ, kResult, 0));

  program.add(move(kSocket, kResult));
  program.add(move(BPF_REG_1, kContext));
  program.add(move(BPF_REG_2, kSocket));
  program.add(move_value(BPF_REG_3, 0));
  program.add(call(BPF_FUNC_sk_assign));
  program.add(move(BPF_REG_1, kSocket));
  program.add(call(BPF_FUNC_sk_release));
  for (const std::size_t jump : to_end) program.aim(jump);
  program.add(move_value(kResult, SK_PASS));
  program.add(instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
  return program.take();
}

Result<PortSteering> PortSteering::load(const std::vector<std::uint16_t>& ports) {
  const NoMemoryLimit unlimited;
  bpf_attr map{};
  map.map_type = BPF_MAP_TYPE_SOCKMAP;
  map.key_size = sizeof(std::uint32_t);
  map.value_size = sizeof(std::uint64_t);
  map.max_entries = kFamilies;
  UniqueFd map_fd(call_bpf(BPF_MAP_CREATE, map));
  if (!map_fd) return cannot("making a BPF map of sockets");
  const auto code = steering_program(ports, map_fd.get());
  bpf_attr program{};
  program.prog_type = BPF_PROG_TYPE_SK_LOOKUP;
  program.expected_attach_type = BPF_SK_LOOKUP;
  program.insns = address(code.data());
  program.insn_cnt = static_cast<std::uint32_t>(code.size());
  program.license = address("Apache-2.0");
  UniqueFd program_fd(call_bpf(BPF_PROG_LOAD, program));
  if (!program_fd) return cannot("loading the BPF program");
  return PortSteering(std::move(map_fd), std::move(program_fd));
}

Ok PortSteering::set(IpFamily family, int listening_socket) {
  const auto key = static_cast<std::uint32_t>(family);
  const auto value = static_cast<std::uint64_t>(listening_socket);
  bpf_attr element{};
  element.map_fd = static_cast<std::uint32_t>(map_.get());
  element.key = address(&key);
  element.value = address(&value);
  if (call_bpf(BPF_MAP_UPDATE_ELEM, element) != 0)
    return fail_errno("handing a listening socket to the BPF program");
  return {};
}

bool PortSteering::has(IpFamily family) const {
  const auto key = static_cast<std::uint32_t>(family);
  std::uint64_t cookie = 0;
  bpf_attr element{};
  element.map_fd = static_cast<std::uint32_t>(map_.get());
  element.key = address(&key);
  element.value = address(&cookie);
  return call_bpf(BPF_MAP_LOOKUP_ELEM, element) == 0;
}

Ok PortSteering::begin() {
  const UniqueFd space(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!space) return fail_errno("opening the network namespace");
  bpf_attr link{};
  link.link_create.prog_fd = static_cast<std::uint32_t>(program_.get());
  link.link_create.target_fd = static_cast<std::uint32_t>(space.get());
  link.link_create.attach_type = BPF_SK_LOOKUP;
  UniqueFd made(call_bpf(BPF_LINK_CREATE, link));
  if (!made) return cannot("attaching the BPF program to the network");
  link_ = std::move(made);
  return {};
}

}  // namespace warmroot::bootstrap
