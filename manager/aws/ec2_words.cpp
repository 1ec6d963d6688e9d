// EC2's state words to enums and back; an unknown word becomes `unknown`, never an error.
#include <array>
#include <utility>

#include "manager/aws/ec2_codec.hpp"

namespace warmroot::aws {
namespace {

template <typename Enum, std::size_t N>
using Words = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Words<VolumeState, 6> kVolumeWords = {{{VolumeState::creating, "creating"},
                                                 {VolumeState::available, "available"},
                                                 {VolumeState::in_use, "in-use"},
                                                 {VolumeState::deleting, "deleting"},
                                                 {VolumeState::deleted, "deleted"},
                                                 {VolumeState::error, "error"}}};

constexpr Words<AttachmentState, 5> kAttachmentWords = {{{AttachmentState::attaching, "attaching"},
                                                         {AttachmentState::attached, "attached"},
                                                         {AttachmentState::detaching, "detaching"},
                                                         {AttachmentState::detached, "detached"},
                                                         {AttachmentState::busy, "busy"}}};

constexpr Words<InstanceState, 6> kInstanceWords = {
    {{InstanceState::pending, "pending"},
     {InstanceState::running, "running"},
     {InstanceState::shutting_down, "shutting-down"},
     {InstanceState::terminated, "terminated"},
     {InstanceState::stopping, "stopping"},
     {InstanceState::stopped, "stopped"}}};

template <typename Enum, std::size_t N>
std::string_view word_of(const Words<Enum, N>& words, Enum state) {
  for (const auto& [value, word] : words)
    if (value == state) return word;
  return "unknown";
}

template <typename Enum, std::size_t N>
Enum value_of(const Words<Enum, N>& words, std::string_view text) {
  for (const auto& [value, word] : words)
    if (word == text) return value;
  return Enum::unknown;
}

}  // namespace

std::string_view to_string(VolumeState state) {
  return word_of(kVolumeWords, state);
}
std::string_view to_string(AttachmentState state) {
  return word_of(kAttachmentWords, state);
}
std::string_view to_string(InstanceState state) {
  return word_of(kInstanceWords, state);
}
VolumeState volume_state(std::string_view word) {
  return value_of(kVolumeWords, word);
}
AttachmentState attachment_state(std::string_view word) {
  return value_of(kAttachmentWords, word);
}
InstanceState instance_state(std::string_view word) {
  return value_of(kInstanceWords, word);
}

}  // namespace warmroot::aws
