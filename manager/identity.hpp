// The proof of who an instance is: its identity document with the RSA-2048 signature that its
// metadata service serves (dynamic/instance-identity/rsa2048). Pure: bytes in, a document or a
// reason out. Asked by admission.cpp; identity.cpp is the only file that knows CMS. Source: EC2
// user guide, "Verify the instance identity document", option 3.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "manager/refusal.hpp"

namespace warmroot::manager {

/// EC2's is some 1.6 KB; product codes make it longer.
inline constexpr std::size_t kMaxIdentityCharacters = 16'384;

/// What EC2 says of an instance. Empty: not said.
struct IdentityDocument {
  std::string instance_id;
  std::string account_id;
  std::string region;
  std::string image_id;
  std::string instance_type;
  std::string private_ip;
};

/// The signers that count: AWS publishes one RSA-2048 certificate for each Region.
class IdentityCertificates {
 public:
  /// One or more "BEGIN CERTIFICATE" blocks; what stands between them is skipped. Errors:
  /// misconfigured when there is none, or one is damaged or no RSA key's.
  static Result<IdentityCertificates> parse(std::string_view pem);
  std::size_t count() const;

 private:
  friend Result<IdentityDocument> verify_identity(const IdentityCertificates&, std::string_view);
  struct Stack;
  std::shared_ptr<const Stack> stack_;
};

/// The document inside `signature`, the service's answer: base64 of a PKCS #7 message that holds
/// it. One signer, one of `certificates`, by SHA-256; certificates in the message count for
/// nothing, and those given count whatever their dates and issuers say, as in AWS's own procedure.
/// Errors (all refused): anything else.
Result<IdentityDocument> verify_identity(const IdentityCertificates& certificates,
                                         std::string_view signature);

/// What is known of whoever says hello. Empty: not known, or not to be compared.
struct ExpectedIdentity {
  std::string instance_id;
  std::string account_id;
  std::string region;
  std::string image_id;
  std::string instance_type;
  std::string private_ip;  ///< as EC2 shows it
  std::string peer;        ///< where the connection comes from
};

struct Mismatch {
  Refusal reason;
  std::string sentence;
};
/// An IPv4 address as EC2 writes it, also of a listener on IPv6 that IPv4 reaches.
std::string_view without_mapping(std::string_view address);

/// The first thing that differs.
std::optional<Mismatch> find_mismatch(const IdentityDocument& document,
                                      const ExpectedIdentity& expected);

}  // namespace warmroot::manager
