#include "manager/user_data.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "manager/user_data_script.hpp"

namespace warmroot::manager {
namespace {

constexpr std::size_t kBase64LineBytes = 57;  // 76 characters, RFC 2045

void replace_all(std::string& text, std::string_view name, std::string_view value) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size())
    text.replace(at, name.size(), value);
}

/// cloud-init's content type for a text, by its first line; empty when it has none.
std::string_view content_type(std::string_view text) {
  if (text.starts_with("#!")) return "text/x-shellscript";
  if (text.starts_with("#cloud-config")) return "text/cloud-config";
  return {};
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string base64_lines(std::string_view text) {
  std::string encoded;
  for (std::size_t at = 0; at < text.size(); at += kBase64LineBytes) {
    const std::string_view piece = text.substr(at, kBase64LineBytes);
    std::array<unsigned char, 80> line{};
    const int size =
        EVP_EncodeBlock(line.data(), reinterpret_cast<const unsigned char*>(piece.data()),
                        static_cast<int>(piece.size()));
    encoded.append(reinterpret_cast<const char*>(line.data()), static_cast<std::size_t>(size));
    encoded += '\n';
  }
  return encoded;
}

/// One MIME part. Text beyond ASCII goes as base64: Python's email package garbles it otherwise.
std::string mime_part(std::string_view type, std::string_view text) {
  const bool plain = is_plain(text);
  return fmt::format("Content-Type: {}; charset=\"utf-8\"\nContent-Transfer-Encoding: {}\n\n{}",
                     type, plain ? "7bit" : "base64",
                     plain ? std::string(text) : base64_lines(text));
}

std::string boothook(const UserDataParts& parts) {
  std::string script(kUserDataScript);
  replace_all(script, "{{manager_url}}", shell_quoted(parts.ticket.manager_url));
  replace_all(script, "{{sha256}}", shell_quoted(parts.bootstrap_sha256));
  replace_all(script, "{{ticket}}", to_json(parts.ticket));
  return script;
}

/// A boundary that no part contains; the same for the same parts.
std::string boundary_for(std::string_view content) {
  std::string boundary = "warmroot-boundary";
  for (int attempt = 0; content.find(boundary) != std::string_view::npos; ++attempt)
    boundary = fmt::format("warmroot-boundary-{}", attempt);
  return boundary;
}

/// Only where it is not what the bootstrap does anyway.
void tell_wish(nlohmann::ordered_json& session, const char* key, Milliseconds wish,
               Milliseconds usual) {
  if (wish != usual) session[key] = std::chrono::floor<std::chrono::seconds>(wish).count();
}

}  // namespace

std::string to_json(const Ticket& ticket) {
  nlohmann::ordered_json json = {
      {"version", 1},
      {"deployment", ticket.deployment},
      {"pool", ticket.pool},
      {"manager_url", ticket.manager_url},
      {"session",
       {{"entry", ticket.session_entry},
        {"host_keys", ticket.host_keys},
        {"rescue_port", ticket.rescue_port}}},
      {"warm",
       {{"enabled", ticket.warm}, {"record", ticket.record}, {"max_depth", ticket.max_depth}}},
  };
  // Only where there is one, so that other pools' user-data stays as it is.
  if (ticket.max_mib_s != 0) json["warm"]["max_mib_s"] = ticket.max_mib_s;
  if (ticket.grow) json["volume"]["grow"] = true;
  if (ticket.login_wait_s) json["session"]["login_wait_s"] = *ticket.login_wait_s;
  if (ticket.write_mib_s) json["session"]["write_mib_s"] = *ticket.write_mib_s;
  const ReleaseWishes usual{};
  tell_wish(json["session"], "grace_s", ticket.release_wishes.grace, usual.grace);
  tell_wish(json["session"], "hooks_s", ticket.release_wishes.hooks, usual.hooks);
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Result<std::string> render_user_data(const UserDataParts& parts) {
  std::string own = mime_part("text/cloud-boothook", boothook(parts));
  std::string operators;
  if (!parts.operators_part.empty()) {
    const std::string_view type = content_type(parts.operators_part);
    if (type.empty())
      return fail(ErrorKind::misconfigured,
                  fmt::format("the user_data of pool {} begins with neither #! nor #cloud-config",
                              parts.ticket.pool));
    operators = mime_part(type, parts.operators_part);
  }
  const std::string boundary = boundary_for(own + operators);
  std::string text =
      fmt::format("Content-Type: multipart/mixed; boundary=\"{}\"\nMIME-Version: 1.0\n\n--{}\n{}\n",
                  boundary, boundary, own);
  if (!operators.empty()) text += fmt::format("--{}\n{}\n", boundary, operators);
  text += fmt::format("--{}--\n", boundary);
  if (text.size() <= kMaxUserDataBytes) return text;
  return fail(ErrorKind::misconfigured,
              fmt::format("the user-data of pool {} is {} bytes and EC2 allows {}: the operator's "
                          "part (launch.user_data) "
                          "is {} bytes, shorten it by {} or let it fetch the rest",
                          parts.ticket.pool, text.size(), kMaxUserDataBytes,
                          parts.operators_part.size(), text.size() - kMaxUserDataBytes));
}

}  // namespace warmroot::manager
