#include "manager/admission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "manager/config.hpp"
#include "manager/daemon_log.hpp"

namespace warmroot::manager {
namespace {

/// Two certificates of each of some forty Regions, with their names in between.
constexpr std::size_t kMaxCertificateBytes = std::size_t{1024} * 1024;
constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kConflict = 409;
constexpr int kUnavailable = 503;

}  // namespace

Result<IdentityCertificates> load_identity_certificates(const std::string& path) {
  const auto wrong = [&](const std::string& why) {
    return fail(ErrorKind::misconfigured, fmt::format("--identity-certificates {}: {}", path, why));
  };
  const auto pem = read_text_file(path, kMaxCertificateBytes);
  if (!pem) return wrong(pem.error().message());
  auto certificates = IdentityCertificates::parse(*pem);
  if (!certificates) return wrong(certificates.error().message());
  return certificates;
}

Admission::Admission(AdmissionRules rules, ReportBoard& board, KeyStore& keys, Time now)
    : rules_(std::move(rules)), board_(board), keys_(keys), began_(now) {}

Admission::Answer Admission::refuse(Refusal reason, int status, std::string error) {
  board_.refusals.add(reason);
  return {status, std::move(error)};
}

Admission::Answer Admission::hello(const Hello& hello, const std::string& peer, Time now) {
  std::optional<IdentityDocument> document;
  if (rules_.certificates) {
    if (hello.identity.empty())
      return refuse(Refusal::hello_unsigned, kForbidden,
                    "this manager wants the signed identity document; update the bootstrap, or "
                    "see why its metadata service has none");
    auto verified = verify_identity(*rules_.certificates, hello.identity);
    if (!verified) return refuse(Refusal::hello_forged, kForbidden, verified.error().context);
    document = std::move(*verified);
  }
  const auto known = board_.known(hello.deployment, hello.instance_id, hello.pool);
  if (document) {
    // An empty peer is not compared below: a connection that ended meanwhile would pass as a NAT.
    if (rules_.check_address && peer.empty())
      return refuse(Refusal::hello_wrong_address, kForbidden,
                    "nobody can tell where the connection comes from, try again");
    const KnownInstance seen = known.value_or(KnownInstance{});
    const auto mismatch = find_mismatch(
        *document, {hello.instance_id, rules_.account_id, rules_.region, seen.image_id,
                    seen.instance_type, seen.private_ip, rules_.check_address ? peer : ""});
    if (mismatch) return refuse(mismatch->reason, kForbidden, mismatch->sentence);
  }
  if (!known) {
    if (board_.is_deployment(hello.deployment)) board_.knock(hello.instance_id, now);
    return refuse(Refusal::hello_unknown, kNotFound,
                  fmt::format("instance {} of pool {} is not known yet, try again",
                              hello.instance_id, hello.pool));
  }
  return give_key(hello.instance_id, *known, peer, now);
}

Result<bool> Admission::replace_key(const std::string& instance_id, const Secret& key,
                                    const KnownInstance& known, const std::string& peer, Time now) {
  if (rules_.certificates) {
    if (silence(instance_id, now) < kSilence) return false;
    TRY(keys_.replace_key(instance_id, key));
    return true;
  }
  if (!rules_.check_address || known.private_ip.empty() ||
      without_mapping(peer) != known.private_ip)
    return false;
  return keys_.replace_unused_key(instance_id, key);
}

Admission::Answer Admission::give_key(const std::string& instance_id, const KnownInstance& known,
                                      const std::string& peer, Time now) {
  const Secret key = new_report_key();
  // One at a time: of two hellos after a silence one gets the key.
  const std::lock_guard lock(mutex_);
  const auto added = keys_.add_key(instance_id, key);
  if (!added) return {kUnavailable, added.error().message()};
  if (!*added) {
    const auto replaced = replace_key(instance_id, key, known, peer, now);
    if (!replaced) return {kUnavailable, replaced.error().message()};
    if (!*replaced) {
      Talk& talk = talks_.try_emplace(instance_id, Talk{began_}).first->second;
      if (!std::exchange(talk.told, true))
        log_event(LogLevel::warning, "second hello while the key is in use",
                  {{"instance", instance_id}});
      return refuse(Refusal::hello_key_in_use, kConflict,
                    fmt::format("instance {} has received its key already", instance_id));
    }
    board_.keys_replaced.fetch_add(1, std::memory_order_relaxed);
    log_event(LogLevel::warning, "new key, the old one is void",
              {{"instance", instance_id}});
  }
  // Whoever is silent needs no entry: to be absent means as much.
  std::erase_if(talks_, [&](const auto& talk) { return now - talk.second.heard >= kSilence; });
  talks_[instance_id] = {now};
  return {200, {}, key, known};
}

void Admission::heard(const std::string& instance_id, Time now) {
  const std::lock_guard lock(mutex_);
  talks_[instance_id].heard = now;
}

std::chrono::steady_clock::duration Admission::silence(const std::string& instance_id, Time now) {
  const auto talk = talks_.find(instance_id);
  return now - (talk == talks_.end() ? began_ : std::max(began_, talk->second.heard));
}

}  // namespace warmroot::manager
