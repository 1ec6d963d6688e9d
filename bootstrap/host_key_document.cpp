#include "bootstrap/host_key_document.hpp"

#include <algorithm>
#include <charconv>

#include "bootstrap/base/words.hpp"
#include "bootstrap/report_sign.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::string_view kTitle = "warmroot host keys 1";

/// Against files that were cut or edited, not against people: whoever is root in a session can
/// write any keys. What they are worth host_keys tries before it shows them.
std::string checksum(std::string_view text) {
  return hmac_sha256_hex(kTitle, text);
}

/// The rest of a line "WORD rest"; nullopt when it begins with another word.
std::optional<std::string_view> after_word(std::string_view line, std::string_view word) {
  if (line.substr(0, word.size()) != word || line.substr(word.size(), 1) != " ")
    return std::nullopt;
  return line.substr(word.size() + 1);
}

/// "TYPE BYTES" and so many bytes.
bool take_key(std::string_view line, std::string_view& text, HostKeys& keys) {
  for (const std::string_view type : kHostKeyTypes) {
    const auto size = after_word(line, type);
    if (!size) continue;
    std::size_t bytes = 0;
    const auto [end, error] = std::from_chars(size->data(), size->data() + size->size(), bytes);
    if (error != std::errc() || end != size->data() + size->size() || bytes > text.size() ||
        keys.has(type))
      return false;
    keys.keys.push_back({std::string(type), std::string(text.substr(0, bytes))});
    text.remove_prefix(bytes);
    return true;
  }
  return false;
}

/// A line that begins so; warnings of the base may stand before it.
bool has_line(std::string_view text, const std::string& start) {
  return ("\n" + std::string(text)).find("\n" + start) != std::string::npos;
}

}  // namespace

const HostKey* HostKeys::find(std::string_view type) const {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const HostKey& key) { return key.type == type; });
  return found == keys.end() ? nullptr : &*found;
}

void HostKeys::put(HostKey key) {
  keys.erase(std::remove_if(keys.begin(), keys.end(),
                            [&](const HostKey& each) { return each.type == key.type; }),
             keys.end());
  keys.push_back(std::move(key));
}

bool says_type(std::string_view output, std::string_view type) {
  const std::string algorithm = type == "ecdsa" ? "ecdsa-sha2-" : "ssh-" + std::string(type) + " ";
  return has_line(output, algorithm);
}

bool is_good_signature(std::string_view output, std::string_view type) {
  std::string capitals(type);
  for (char& c : capitals) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return has_line(output, "Good \"warmroot\" signature with " + capitals + " key ");
}

std::string host_key_document(const HostKeys& keys) {
  std::string text = std::string(kTitle) + "\nvolume " + keys.volume_id + "\n";
  for (const HostKey& key : keys.keys)
    text += key.type + " " + std::to_string(key.text.size()) + "\n" + key.text;
  return text + "sum " + checksum(text) + "\n";
}

std::optional<HostKeys> parse_host_key_document(std::string_view text) {
  const std::string_view whole = text;
  if (take_line(text) != kTitle) return std::nullopt;
  const auto second = take_line(text);
  const auto volume = second ? after_word(*second, "volume") : std::nullopt;
  if (!volume) return std::nullopt;
  HostKeys keys{std::string(*volume), {}};
  while (true) {
    const std::string_view before = whole.substr(0, whole.size() - text.size());
    const auto line = take_line(text);
    if (!line) return std::nullopt;
    if (const auto sum = after_word(*line, "sum")) {
      if (*sum != checksum(before) || !text.empty() || keys.keys.empty()) return std::nullopt;
      return keys;
    }
    if (!take_key(*line, text, keys)) return std::nullopt;
  }
}

}  // namespace warmroot::bootstrap
