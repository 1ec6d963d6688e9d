// The simulated region's own key for instance identity documents. What it signs has EC2's form: a
// PKCS #7 message with the document in it, in BER of indefinite length, without certificates, as
// base64 lines. Used by the metadata listeners and by tests of the manager's verifier.
#pragma once

#include <memory>
#include <mutex>
#include <string>

namespace warmroot::sim {

/// One line of base64.
std::string base64_text(const std::string& bytes);

/// A new key and certificate each. The key is made at first use, which takes some 100 ms.
/// Thread-safe.
class IdentitySigner {
 public:
  /// EC2's is of 2048 bits; a shorter one signs faster.
  explicit IdentitySigner(unsigned key_bits = 2048);
  ~IdentitySigner();

  /// What dynamic/instance-identity/rsa2048 answers.
  std::string sign(const std::string& document);
  /// PEM.
  std::string certificate();

 private:
  struct Pair;
  Pair& pair();
  const unsigned key_bits_;
  std::once_flag made_;
  std::unique_ptr<Pair> pair_;
};

}  // namespace warmroot::sim
