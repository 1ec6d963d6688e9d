// See the header.
#include "tests/sim/instance_identity.hpp"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "bootstrap/base/result.hpp"

namespace warmroot::sim {

namespace {

constexpr long kCertificateSeconds = 10L * 365 * 86'400;
constexpr std::size_t kLineBytes = 48;  // 64 letters

std::string text_of(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

X509* make_certificate(EVP_PKEY* key) {
  X509* certificate = X509_new();
  CHECK(certificate != nullptr);
  X509_set_version(certificate, 2);
  // Two regions' certificates must not share issuer and number: signers are found by them.
  BIGNUM* number = BN_new();
  CHECK(BN_rand(number, 64, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
  BN_free(number);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), kCertificateSeconds);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("warmroot-sim"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
  return certificate;
}

}  // namespace

std::string base64_text(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int letters = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                      reinterpret_cast<const unsigned char*>(bytes.data()),
                                      static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(letters));
  return text;
}

struct IdentitySigner::Pair {
  explicit Pair(unsigned bits) : key(EVP_RSA_gen(bits)), certificate(make_certificate(key)) {}
  ~Pair() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  EVP_PKEY* key;
  X509* certificate;
};

IdentitySigner::IdentitySigner(unsigned key_bits) : key_bits_(key_bits) {}
IdentitySigner::~IdentitySigner() = default;

IdentitySigner::Pair& IdentitySigner::pair() {
  std::call_once(made_, [this] { pair_ = std::make_unique<Pair>(key_bits_); });
  return *pair_;
}

std::string IdentitySigner::sign(const std::string& document) {
  constexpr int kFlags = PKCS7_BINARY | PKCS7_NOCERTS | PKCS7_NOSMIMECAP | PKCS7_STREAM;
  Pair& signer = pair();
  BIO* content = BIO_new_mem_buf(document.data(), static_cast<int>(document.size()));
  PKCS7* message = PKCS7_sign(signer.certificate, signer.key, nullptr, content, kFlags);
  BIO* output = BIO_new(BIO_s_mem());
  CHECK(message != nullptr && i2d_PKCS7_bio_stream(output, message, content, kFlags) == 1);
  const std::string bytes = text_of(output);
  BIO_free(output);
  PKCS7_free(message);
  BIO_free(content);
  std::string lines;
  for (std::size_t at = 0; at < bytes.size(); at += kLineBytes)
    lines += (at == 0 ? "" : "\n") + base64_text(bytes.substr(at, kLineBytes));
  return lines;
}

std::string IdentitySigner::certificate() {
  BIO* output = BIO_new(BIO_s_mem());
  CHECK(PEM_write_bio_X509(output, pair().certificate) == 1);
  std::string pem = text_of(output);
  BIO_free(output);
  return pem;
}

}  // namespace warmroot::sim
