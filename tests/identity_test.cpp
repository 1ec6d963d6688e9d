// Identity: which signed documents prove an instance, and everything that must not.
#include "manager/identity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/cms.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <cstring>

#include "tests/sim/instance_identity.hpp"

namespace warmroot::manager {
namespace {

using testing::HasSubstr;

constexpr const char* kInstance = "i-0123456789abcdef0";
constexpr const char* kDocument = R"({
  "accountId" : "111122223333", "architecture" : "x86_64", "availabilityZone" : "us-east-1a",
  "billingProducts" : null, "imageId" : "ami-0base000000000001", "instanceId" : "i-0123456789abcdef0",
  "instanceType" : "g5.12xlarge", "kernelId" : null, "pendingTime" : "2026-01-02T03:04:05Z",
  "privateIp" : "10.0.0.5", "region" : "us-east-1", "version" : "2017-09-30"
})";

/// A key with a certificate of the name and number given.
struct Signer {
  Signer(const char* name, long number, EVP_PKEY* made) : key(made), certificate(X509_new()) {
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), number);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
    X509_gmtime_adj(X509_getm_notAfter(certificate), -3600);  // its dates count for nothing
    X509_set_pubkey(certificate, key);
    X509_NAME* const subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
    CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
  }
  Signer(const char* name, long number) : Signer(name, number, EVP_RSA_gen(2048)) {}
  ~Signer() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  Signer(const Signer&) = delete;
  std::string pem() const {
    BIO* const output = BIO_new(BIO_s_mem());
    CHECK(PEM_write_bio_X509(output, certificate) == 1);
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(output, &bytes);
    std::string text(bytes, static_cast<std::size_t>(size));
    BIO_free(output);
    return text;
  }
  EVP_PKEY* key;
  X509* certificate;
};

const Signer& aws() {
  static const Signer signer("Amazon Web Services LLC", 7);
  return signer;
}
/// The same name and number, another key: who knows AWS's certificate can make that.
const Signer& impostor() {
  static const Signer signer("Amazon Web Services LLC", 7);
  return signer;
}
const Signer& stranger() {
  static const Signer signer("Mallory", 8);
  return signer;
}

struct Made {
  std::vector<const Signer*> signers = {&aws()};
  std::vector<const Signer*> embedded = {};
  std::string content = kDocument;
  unsigned flags = 0;
  const EVP_MD* digest = EVP_sha256();
  int content_type = NID_pkcs7_data;
};

/// The message's DER.
std::string message(const Made& made = {}) {
  constexpr unsigned kAlways = CMS_BINARY | CMS_NOCERTS | CMS_PARTIAL | CMS_NOSMIMECAP;
  BIO* const content = BIO_new_mem_buf(made.content.data(), static_cast<int>(made.content.size()));
  CMS_ContentInfo* const cms = CMS_sign(nullptr, nullptr, nullptr, content, kAlways | made.flags);
  CHECK(cms != nullptr);
  for (const Signer* signer : made.signers)
    CHECK(CMS_add1_signer(cms, signer->certificate, signer->key, made.digest,
                          kAlways | made.flags) != nullptr);
  for (const Signer* signer : made.embedded) CHECK(CMS_add1_cert(cms, signer->certificate) == 1);
  CHECK(CMS_set1_eContentType(cms, OBJ_nid2obj(made.content_type)) == 1);
  CHECK(CMS_final(cms, content, nullptr, kAlways | made.flags) == 1);
  unsigned char* bytes = nullptr;
  const int size = i2d_CMS_ContentInfo(cms, &bytes);
  CHECK(size > 0);
  const std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  CMS_ContentInfo_free(cms);
  BIO_free(content);
  return der;
}

IdentityCertificates trusted() {
  return *IdentityCertificates::parse(aws().pem());
}

/// "" when it proves the instance, else why not.
std::string verdict(const std::string& signature) {
  const auto document = verify_identity(trusted(), signature);
  if (!document) {
    EXPECT_EQ(document.error().kind, ErrorKind::refused);
    EXPECT_FALSE(document.error().context.empty());
    return document.error().context;
  }
  EXPECT_EQ(document->instance_id, kInstance);
  return {};
}
std::string verdict(const Made& made) {
  return verdict(sim::base64_text(message(made)));
}

TEST(Identity, a_document_signed_by_a_given_certificate_is_read) {
  const auto document = verify_identity(trusted(), sim::base64_text(message()));
  ASSERT_TRUE(document) << document.error().message();
  EXPECT_EQ(document->instance_id, kInstance);
  EXPECT_EQ(document->account_id, "111122223333");
  EXPECT_EQ(document->region, "us-east-1");
  EXPECT_EQ(document->image_id, "ami-0base000000000001");
  EXPECT_EQ(document->instance_type, "g5.12xlarge");
  EXPECT_EQ(document->private_ip, "10.0.0.5");
}

TEST(Identity, the_metadata_services_form_is_read) {
  sim::IdentitySigner region;
  const std::string signature = region.sign(kDocument);
  EXPECT_TRUE(signature.starts_with("MIAGCSqGSIb3DQEHAqCAMIAC")) << "as AWS's does: BER";
  const auto both =
      IdentityCertificates::parse(aws().pem() + "other text\n" + region.certificate());
  ASSERT_TRUE(both);
  EXPECT_EQ(both->count(), 2u);
  EXPECT_TRUE(verify_identity(*both, signature));
  EXPECT_TRUE(verify_identity(*both, signature + "\n"));
  EXPECT_THAT(verdict(signature), HasSubstr("not signed by a certificate of"))
      << "another Region's";
  sim::IdentitySigner other;
  EXPECT_FALSE(verify_identity(*IdentityCertificates::parse(other.certificate()), signature));
}

TEST(Identity, only_one_signer_that_is_ours_proves_anything) {
  struct Case {
    const char* name;
    Made made;
    const char* why;  ///< "": accepted
  };
  const std::vector<Case> cases = {
      {"ours", {}, ""},
      {"without signed attributes", {.flags = CMS_NOATTR}, ""},
      {"ours, a stranger's certificate beside it", {.embedded = {&stranger()}}, ""},
      {"a stranger", {.signers = {&stranger()}}, "not signed by a certificate of"},
      {"a stranger who brings a certificate",
       {.signers = {&stranger()}, .embedded = {&stranger()}},
       "not signed by a certificate of"},
      {"our certificate's name and number",
       {.signers = {&impostor()}},
       "not signed by a certificate of"},
      {"the same, who brings a certificate",
       {.signers = {&impostor()}, .embedded = {&impostor()}},
       "not signed by a certificate of"},
      {"two", {.signers = {&aws(), &stranger()}}, "exactly one signer"},
      {"two, the other first",
       {.signers = {&stranger(), &aws()}, .embedded = {&stranger()}},
       "exactly one signer"},
      {"ours twice", {.signers = {&aws(), &aws()}}, "exactly one signer"},
      {"detached", {.flags = CMS_DETACHED}, "does not hold the document"},
      {"SHA-1", {.digest = EVP_sha1()}, "SHA-256"},
      {"SHA-512", {.digest = EVP_sha512()}, "SHA-256"},
      {"a message in the message",
       {.content_type = NID_pkcs7_signed},
       "does not hold the document"},
  };
  for (const Case& test : cases) {
    if (*test.why == '\0')
      EXPECT_EQ(verdict(test.made), "") << test.name;
    else
      EXPECT_THAT(verdict(test.made), HasSubstr(test.why)) << test.name;
  }
}

TEST(Identity, a_message_that_nobody_signed_proves_nothing) {
  for (const bool with_certificate : {false, true}) {
    PKCS7* const unsigned_message = PKCS7_new();
    CHECK(PKCS7_set_type(unsigned_message, NID_pkcs7_signed) == 1);
    CHECK(PKCS7_content_new(unsigned_message, NID_pkcs7_data) == 1);
    ASN1_OCTET_STRING_set(unsigned_message->d.sign->contents->d.data,
                          reinterpret_cast<const unsigned char*>(kDocument),
                          static_cast<int>(std::strlen(kDocument)));
    if (with_certificate) CHECK(PKCS7_add_certificate(unsigned_message, aws().certificate) == 1);
    unsigned char* bytes = nullptr;
    const int size = i2d_PKCS7(unsigned_message, &bytes);
    CHECK(size > 0);
    EXPECT_THAT(verdict(sim::base64_text(
                    {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)})),
                HasSubstr("exactly one signer"));
    OPENSSL_free(bytes);
    PKCS7_free(unsigned_message);
  }
}

TEST(Identity, what_is_signed_has_to_be_a_document) {
  for (const char* content : {"", "text", "[]", "{}", R"({"instanceId":"i-1"})",
                              R"({"instanceId":7,"accountId":"1","region":"r"})"})
    EXPECT_THAT(verdict(Made{.content = content}), HasSubstr("document")) << content;
  EXPECT_THAT(verdict(Made{.content = std::string(10'000, '[')}), HasSubstr("document"));
  const auto sparse = verify_identity(
      trusted(),
      sim::base64_text(message(
          {.content = R"({"instanceId":"i-1","accountId":"1","region":"r","imageId":null})"})));
  ASSERT_TRUE(sparse);
  EXPECT_EQ(sparse->image_id, "");
}

TEST(Identity, other_bytes_are_refused_with_a_reason) {
  const std::string der = message();
  const std::string text = sim::base64_text(der);
  EXPECT_THAT(verdict(std::string()), HasSubstr("base64"));
  for (const std::string& bad :
       {std::string("="), std::string("===="), std::string("AAA=AAAA"), "-" + text.substr(1),
        "\t" + text, text + "\t", text + "====", text.substr(1), text + "-----END PKCS7-----",
        "-----BEGIN PKCS7-----\n" + text + "\n-----END PKCS7-----",
        std::string("\xff\xfe\xfd\xfc")})
    EXPECT_THAT(verdict(bad), HasSubstr("base64")) << bad.substr(0, 30);
  EXPECT_THAT(verdict(sim::base64_text(der + '\0')), HasSubstr("something follows"));
  EXPECT_THAT(verdict(sim::base64_text(der + der)), HasSubstr("something follows"));
  EXPECT_THAT(verdict(sim::base64_text("text")), HasSubstr("no PKCS #7 message"));
  EXPECT_THAT(verdict(std::string(kMaxIdentityCharacters + 4, 'A')), HasSubstr("too long"));
  // ContentInfo without content, and of "data" instead of "signedData".
  EXPECT_NE(verdict(sim::base64_text(
                std::string("\x30\x0b\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", 13))),
            "");
  EXPECT_NE(verdict(sim::base64_text(
                std::string("\x30\x0b\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01", 13))),
            "");
  for (std::size_t length = 0; length < der.size(); ++length)
    EXPECT_NE(verdict(sim::base64_text(der.substr(0, length))), "") << length;
}

TEST(Identity, no_changed_byte_changes_what_is_believed) {
  const std::string der = message();
  const IdentityCertificates certificates = trusted();
  const auto original = verify_identity(certificates, sim::base64_text(der));
  ASSERT_TRUE(original);
  const std::size_t content = der.find("\"instanceId\"");
  ASSERT_NE(content, std::string::npos);
  int refused = 0;
  for (std::size_t at = 0; at < der.size(); ++at)
    for (const int bit : {0, 5, 7}) {
      std::string changed = der;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const auto document = verify_identity(certificates, sim::base64_text(changed));
      refused += !document;
      if (document) {
        EXPECT_EQ(document->instance_id, original->instance_id) << at;
      }
      if (at >= content && at < content + 20) {
        EXPECT_FALSE(document) << at;
      }
    }
  EXPECT_GT(refused, static_cast<int>(2 * der.size()));
}

TEST(Identity, what_the_document_says_is_compared_with_what_is_known) {
  const IdentityDocument document{kInstance, "111122223333", "us-east-1",
                                  "ami-1",   "g5.xlarge",    "10.0.0.5"};
  const ExpectedIdentity all{kInstance,   "111122223333", "us-east-1", "ami-1",
                             "g5.xlarge", "10.0.0.5",     "10.0.0.5"};
  EXPECT_FALSE(find_mismatch(document, all));
  EXPECT_FALSE(find_mismatch(document, {})) << "nothing is known";
  struct Case {
    std::string ExpectedIdentity::*field;
    const char* value;
    std::optional<Refusal> reason;
  };
  const std::vector<Case> cases = {
      {&ExpectedIdentity::instance_id, "i-0123456789abcdef1", Refusal::hello_wrong_instance},
      {&ExpectedIdentity::account_id, "444455556666", Refusal::hello_wrong_account},
      {&ExpectedIdentity::region, "us-east-2", Refusal::hello_wrong_account},
      {&ExpectedIdentity::image_id, "ami-2", Refusal::hello_wrong_instance},
      {&ExpectedIdentity::instance_type, "g5.2xlarge", Refusal::hello_wrong_instance},
      {&ExpectedIdentity::private_ip, "10.0.0.6", Refusal::hello_wrong_address},
      {&ExpectedIdentity::peer, "10.0.0.50", Refusal::hello_wrong_address},
      {&ExpectedIdentity::peer, "::1", Refusal::hello_wrong_address},
      {&ExpectedIdentity::peer, "::ffff:10.0.0.6", Refusal::hello_wrong_address},
      {&ExpectedIdentity::peer, "::ffff:10.0.0.5", std::nullopt},
      {&ExpectedIdentity::peer, "", std::nullopt},
      {&ExpectedIdentity::private_ip, "", std::nullopt},
  };
  for (const Case& test : cases) {
    ExpectedIdentity expected = all;
    expected.*test.field = test.value;
    const auto found = find_mismatch(document, expected);
    EXPECT_EQ(found ? std::optional(found->reason) : std::nullopt, test.reason) << test.value;
    if (found) {
      EXPECT_THAT(found->sentence, HasSubstr(test.value));
    }
  }
  IdentityDocument silent = document;
  silent.private_ip.clear();
  EXPECT_EQ(find_mismatch(silent, all)->reason, Refusal::hello_wrong_address)
      << "a document without an address proves none";
}

TEST(IdentityCertificates, are_read_from_pem_and_mistakes_are_told) {
  EXPECT_EQ(IdentityCertificates::parse(aws().pem() + stranger().pem())->count(), 2u);
  const auto why = [](const std::string& pem) {
    const auto parsed = IdentityCertificates::parse(pem);
    return parsed ? std::string() : parsed.error().message();
  };
  EXPECT_THAT(why(""), HasSubstr("no certificate"));
  EXPECT_THAT(why("i-1\n"), HasSubstr("no certificate"));
  std::string damaged = aws().pem();
  damaged[damaged.size() / 2] = '!';
  EXPECT_THAT(why(damaged), HasSubstr("damaged"));
  EXPECT_THAT(why(stranger().pem() + damaged), HasSubstr("damaged"))
      << "a file is taken as a whole or not at all";
  EXPECT_THAT(why(aws().pem().substr(0, 300)), HasSubstr("damaged"));
  const Signer elliptic("Amazon", 9, EVP_EC_gen("P-256"));
  EXPECT_THAT(why(elliptic.pem()), HasSubstr("RSA-2048"));
}

}  // namespace
}  // namespace warmroot::manager
