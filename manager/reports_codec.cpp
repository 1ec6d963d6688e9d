#include "manager/reports_codec.hpp"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/nesting.hpp"
#include "manager/identity.hpp"

namespace warmroot::manager {
namespace {

using Json = nlohmann::json;

/// A status document nests five deep; the JSON library's dump recurses, so an attacker's depth is
/// our stack.
constexpr int kMaxDepth = 32;
constexpr std::size_t kMaxIdCharacters = 64;
constexpr std::size_t kMaxMessageCharacters = 1024;
constexpr int kVersion = 1;
constexpr std::size_t kKeyBytes = 32;

Result<Json> parse_object(std::string_view body) {
  if (nests_deeper(body, kMaxDepth))
    return fail(ErrorKind::refused, fmt::format("the body nests deeper than {} levels", kMaxDepth));
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return fail(ErrorKind::refused, "the body is not a JSON object");
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer() || *version != kVersion)
    return fail(ErrorKind::refused,
                fmt::format("version is not {}, update the older side", kVersion));
  return json;
}

/// A short text; null and absence are empty.
Result<std::string> short_text(const Json& json, const char* key, std::size_t limit) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::string();
  if (!found->is_string()) return fail(ErrorKind::refused, fmt::format("{} is not text", key));
  const auto& text = found->get_ref<const std::string&>();
  if (text.size() > limit)
    return fail(ErrorKind::refused, fmt::format("{} exceeds {} characters", key, limit));
  return text;
}

Result<std::string> required_id(const Json& json, const char* key) {
  TRY_ASSIGN(std::string text, short_text(json, key, kMaxIdCharacters));
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '-');
  });
  if (text.empty() || !plain)
    return fail(ErrorKind::refused, fmt::format("{} is missing or not an id", key));
  return text;
}

double number_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : -1;
}

/// As far as the guest can be trusted to send a number there. Until the warmer knows what is
/// needed, and where nobody warms, it is none.
std::optional<double> warmth_in(const Json& status) {
  const auto warm = status.find("warm");
  if (warm == status.end() || !warm->is_object() || number_in(*warm, "needed_blocks") <= 0)
    return std::nullopt;
  const double share = number_in(*warm, "warmth");
  return share >= 0 && share <= 1 ? std::optional(share) : std::nullopt;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

/// Requires: hex digits, as new_report_key() writes them.
std::string bytes_of_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

struct FreeContext {
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};

std::unique_ptr<EVP_MAC_CTX, FreeContext> new_hmac() {
  EVP_MAC* algorithm = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  std::unique_ptr<EVP_MAC_CTX, FreeContext> context(EVP_MAC_CTX_new(algorithm));
  EVP_MAC_free(algorithm);  // the context keeps it
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end()};
  CHECK(context && EVP_MAC_CTX_set_params(context.get(), parameters) == 1);
  return context;
}

const unsigned char* as_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

Result<Hello> parse_hello(std::string_view body) {
  TRY_ASSIGN(const Json json, parse_object(body));
  Hello hello;
  TRY_ASSIGN(hello.instance_id, required_id(json, "instance_id"));
  TRY_ASSIGN(hello.deployment, required_id(json, "deployment"));
  TRY_ASSIGN(hello.pool, required_id(json, "pool"));
  TRY_ASSIGN(hello.identity, short_text(json, "identity", kMaxIdentityCharacters));
  return hello;
}

Result<core::NodeReport> parse_report(std::string_view body) {
  TRY_ASSIGN(const Json json, parse_object(body));
  core::NodeReport report;
  TRY_ASSIGN(report.instance_id, required_id(json, "instance_id"));
  TRY_ASSIGN(report.volume_id, short_text(json, "volume_id", kMaxIdCharacters));
  report.volume_id = without_controls(std::move(report.volume_id));
  TRY_ASSIGN(const std::string stage, short_text(json, "stage", kMaxIdCharacters));
  const auto known = node_stage_from(stage);
  if (!known) return fail(ErrorKind::refused, "stage is not one of those that this manager knows");
  report.stage = *known;
  // Operators read both in their terminals.
  TRY_ASSIGN(report.message, short_text(json, "message", kMaxMessageCharacters));
  report.message = without_controls(std::move(report.message));
  TRY_ASSIGN(report.reason, short_text(json, "reason", kMaxMessageCharacters));
  report.reason = without_controls(std::move(report.reason));
  if (report.message.empty()) report.message = report.reason;
  const auto status = json.find("status");
  if (status != json.end() && status->is_object()) {
    report.status_json = status->dump(-1, ' ', false, Json::error_handler_t::replace);
    report.warmth = warmth_in(*status);
    report.rebalance = status->contains("rebalance") && (*status)["rebalance"].is_string();
  }
  return report;
}

std::string hello_answer(const Secret& key_hex, const std::string& node,
                         const std::string& volume_id) {
  return Json{{"key", key_hex.reveal()},
              {"node", text_or_null(node)},
              {"volume_id", text_or_null(volume_id)}}
      .dump();
}

std::string report_answer(bool drain, const std::string& volume_id, const std::string& snapshot_id,
                          const std::string& no_volume, const std::string& error) {
  Json answer{{"wishes",
               {{"drain", drain},
                {"volume_id", text_or_null(volume_id)},
                {"snapshot_id", text_or_null(snapshot_id)},
                {"no_volume", text_or_null(no_volume)}}}};
  if (!error.empty()) answer["error"] = error;
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string error_answer(const std::string& text) {
  return Json{{"error", text}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string report_signature(const Secret& key_hex, std::uint64_t sequence, std::string_view body) {
  // Finding the algorithm is most of what a whole HMAC() costs; a thread does it once.
  thread_local const std::unique_ptr<EVP_MAC_CTX, FreeContext> hmac = new_hmac();
  const std::string key = bytes_of_hex(key_hex.reveal());
  const std::string number = fmt::format("{}\n", sequence);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  std::size_t size = 0;
  CHECK(EVP_MAC_init(hmac.get(), as_bytes(key), key.size(), nullptr) == 1 &&
        EVP_MAC_update(hmac.get(), as_bytes(number), number.size()) == 1 &&
        EVP_MAC_update(hmac.get(), as_bytes(body), body.size()) == 1 &&
        EVP_MAC_final(hmac.get(), digest.data(), &size, digest.size()) == 1);
  return hex({reinterpret_cast<const char*>(digest.data()), size});
}

bool equal_in_constant_time(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

Secret new_report_key() {
  std::array<unsigned char, kKeyBytes> bytes{};
  CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  return Secret(hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

}  // namespace warmroot::manager
