// A string that must not be seen: keys, session tokens, bearer tokens. Used by both programs.
#pragma once

#include <string>
#include <utility>

namespace warmroot {

/// A secret string. It has no formatter, and its stream operator is deleted, so that no log line
/// and no error can take it by accident; only the code that sends or signs reveals it.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  const std::string& reveal() const { return value_; }
  bool empty() const { return value_.empty(); }
  bool operator==(const Secret&) const = default;

  template <typename Stream>
  friend Stream& operator<<(Stream&, const Secret&) = delete;

 private:
  std::string value_;
};

/// `text` with every occurrence of the secret replaced: other programs' messages may repeat what
/// they were sent. Secrets that are too short to be any are left alone.
inline std::string hide(std::string text, const Secret& secret) {
  constexpr std::size_t kShortest = 8;
  constexpr const char kInstead[] = "[hidden]";
  if (secret.reveal().size() < kShortest) return text;
  for (std::size_t at = text.find(secret.reveal()); at != std::string::npos;
       at = text.find(secret.reveal(), at + sizeof kInstead - 1))
    text.replace(at, secret.reveal().size(), kInstead);
  return text;
}

}  // namespace warmroot
