#include "bootstrap/login_proof.hpp"

#include <utility>

#include "bootstrap/base/words.hpp"
#include "bootstrap/report_sign.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::string_view kTitle = "warmroot login proof 1";

/// A line each, in this order.
constexpr std::pair<std::string_view, std::string LoginProof::*> kLines[] = {
    {"volume ", &LoginProof::volume_id},
    {"instance ", &LoginProof::instance_id},
    {"login ", &LoginProof::login},
    {"host_key ", &LoginProof::host_key}};

}  // namespace

std::string open_marker(const std::string& instance_id) {
  return "open " + instance_id + "\n";
}

std::string clean_marker(const std::string& instance_id) {
  return "clean " + instance_id + "\n";
}

std::string login_line(const User& user) {
  return "chroot " + user.name + " " + std::to_string(user.uid) + " " + user.shell;
}

std::string key_checksum(std::string_view key_text) {
  return hmac_sha256_hex(kTitle, key_text);
}

std::string proof_document(const LoginProof& proof) {
  std::string text = std::string(kTitle) + "\n";
  for (const auto& [word, value] : kLines) text += std::string(word) + proof.*value + "\n";
  return text;
}

std::optional<LoginProof> parse_proof(std::string_view text) {
  if (take_line(text) != kTitle) return std::nullopt;
  LoginProof proof;
  for (const auto& [word, value] : kLines) {
    const auto line = take_line(text);
    if (!line || !line->starts_with(word)) return std::nullopt;
    proof.*value = line->substr(word.size());
  }
  if (!text.empty()) return std::nullopt;
  return proof;
}

std::optional<LoginProof> counting_proof(std::string_view text, std::string_view marker,
                                         const std::string& volume_id) {
  auto proof = parse_proof(text);
  if (!proof || volume_id.empty() || proof->instance_id.empty() || proof->volume_id != volume_id ||
      marker != clean_marker(proof->instance_id))
    return std::nullopt;
  return proof;
}

}  // namespace warmroot::bootstrap
