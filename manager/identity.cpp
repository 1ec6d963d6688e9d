#include "manager/identity.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/cms.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace warmroot::manager {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Message = std::unique_ptr<CMS_ContentInfo, Freed<CMS_ContentInfo_free>>;

tl::unexpected<Error> refuse(std::string sentence) {
  ERR_clear_error();
  return fail(ErrorKind::refused, std::move(sentence));
}

/// Strict but for white space; nullopt when it is anything else.
std::optional<std::string> decode_base64(std::string_view text) {
  std::string packed;
  std::copy_if(text.begin(), text.end(), std::back_inserter(packed),
               [](char c) { return c != '\n' && c != '\r' && c != ' '; });
  const std::size_t letters = std::min(packed.find('='), packed.size());
  const std::size_t padding = packed.size() - letters;
  if (packed.empty() || packed.size() % 4 != 0 || padding > 2 ||
      packed.find_first_not_of('=', letters) != std::string::npos)
    return std::nullopt;
  std::string bytes(packed.size() / 4 * 3, '\0');
  // It skips white space and a dash at the ends by itself, and then tells fewer bytes.
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(packed.data()),
                      static_cast<int>(packed.size())) != static_cast<int>(bytes.size()))
    return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Result<IdentityDocument> read_document(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return refuse("what is signed is no identity document");
  IdentityDocument document{text_at(json, "instanceId"),   text_at(json, "accountId"),
                            text_at(json, "region"),       text_at(json, "imageId"),
                            text_at(json, "instanceType"), text_at(json, "privateIp")};
  if (document.instance_id.empty() || document.account_id.empty() || document.region.empty())
    return refuse("the identity document does not say which instance, account and Region");
  return document;
}

/// A whole message that holds what its one signer signed by SHA-256.
Result<Message> parse_message(const std::string& bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto* const end = at + bytes.size();
  Message message(d2i_CMS_ContentInfo(nullptr, &at, static_cast<long>(bytes.size())));
  if (!message) return refuse("the identity's signature is no PKCS #7 message");
  if (at != end) return refuse("something follows the identity's signature");
  if (OBJ_obj2nid(CMS_get0_type(message.get())) != NID_pkcs7_signed)
    return refuse("the identity is not signed");
  const auto* const kind = CMS_get0_eContentType(message.get());
  ASN1_OCTET_STRING** const content = CMS_get0_content(message.get());
  if (kind == nullptr || OBJ_obj2nid(kind) != NID_pkcs7_data || content == nullptr ||
      *content == nullptr)
    return refuse("the identity's signature does not hold the document");
  STACK_OF(CMS_SignerInfo)* const signers = CMS_get0_SignerInfos(message.get());
  if (signers == nullptr || sk_CMS_SignerInfo_num(signers) != 1)
    return refuse("the identity has not exactly one signer");
  X509_ALGOR* digest = nullptr;
  CMS_SignerInfo_get0_algs(sk_CMS_SignerInfo_value(signers, 0), nullptr, nullptr, &digest, nullptr);
  if (digest == nullptr || OBJ_obj2nid(digest->algorithm) != NID_sha256)
    return refuse("the identity is not signed by SHA-256");
  return message;
}

}  // namespace

struct IdentityCertificates::Stack {
  Stack() : x509(sk_X509_new_null()) { CHECK(x509 != nullptr); }
  ~Stack() { sk_X509_pop_free(x509, X509_free); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  STACK_OF(X509) * x509;
};

Result<IdentityCertificates> IdentityCertificates::parse(std::string_view pem) {
  const Bio input(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  CHECK(input != nullptr);
  auto stack = std::make_shared<Stack>();
  while (Certificate one{PEM_read_bio_X509(input.get(), nullptr, nullptr, nullptr)}) {
    EVP_PKEY* const key = X509_get0_pubkey(one.get());
    if (key == nullptr || EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA) {
      ERR_clear_error();
      return fail(ErrorKind::misconfigured,
                  "not an RSA key's; take AWS's RSA-2048 certificate of the Region");
    }
    CHECK(sk_X509_push(stack->x509, one.release()) > 0);
  }
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!ended) return fail(ErrorKind::misconfigured, "a certificate in it is damaged");
  if (sk_X509_num(stack->x509) == 0)
    return fail(ErrorKind::misconfigured, "no certificate in it (PEM, BEGIN CERTIFICATE)");
  IdentityCertificates certificates;
  certificates.stack_ = std::move(stack);
  return certificates;
}

std::size_t IdentityCertificates::count() const {
  return static_cast<std::size_t>(sk_X509_num(stack_->x509));
}

Result<IdentityDocument> verify_identity(const IdentityCertificates& certificates,
                                         std::string_view signature) {
  if (signature.size() > kMaxIdentityCharacters) return refuse("the identity is too long");
  const auto bytes = decode_base64(signature);
  if (!bytes) return refuse("the identity is not base64");
  TRY_ASSIGN(const Message message, parse_message(*bytes));
  const Bio output(BIO_new(BIO_s_mem()));
  CHECK(output != nullptr);
  if (CMS_verify(message.get(), certificates.stack_->x509, nullptr, nullptr, output.get(),
                 CMS_NOINTERN | CMS_NO_SIGNER_CERT_VERIFY | CMS_BINARY) != 1)
    return refuse("the identity is not signed by a certificate of --identity-certificates");
  char* content = nullptr;
  const long size = BIO_get_mem_data(output.get(), &content);
  return read_document({content, static_cast<std::size_t>(size)});
}

std::string_view without_mapping(std::string_view address) {
  constexpr std::string_view kMapped = "::ffff:";
  return address.starts_with(kMapped) ? address.substr(kMapped.size()) : address;
}

std::optional<Mismatch> find_mismatch(const IdentityDocument& document,
                                      const ExpectedIdentity& expected) {
  const auto differs = [](const std::string& told, const std::string& known) {
    return !known.empty() && told != known;
  };
  const auto mismatch = [](Refusal reason, const char* what, const std::string& told,
                           std::string_view known) {
    return Mismatch{reason,
                    fmt::format("the identity document's {} is \"{}\", not {}", what, told, known)};
  };
  if (differs(document.account_id, expected.account_id))
    return mismatch(Refusal::hello_wrong_account, "accountId", document.account_id,
                    expected.account_id);
  if (differs(document.region, expected.region))
    return mismatch(Refusal::hello_wrong_account, "region", document.region, expected.region);
  if (differs(document.instance_id, expected.instance_id))
    return mismatch(Refusal::hello_wrong_instance, "instanceId", document.instance_id,
                    expected.instance_id);
  if (differs(document.image_id, expected.image_id))
    return mismatch(Refusal::hello_wrong_instance, "imageId", document.image_id, expected.image_id);
  if (differs(document.instance_type, expected.instance_type))
    return mismatch(Refusal::hello_wrong_instance, "instanceType", document.instance_type,
                    expected.instance_type);
  if (expected.peer.empty()) return std::nullopt;
  if (document.private_ip != without_mapping(expected.peer))
    return mismatch(Refusal::hello_wrong_address, "privateIp", document.private_ip,
                    fmt::format("{}, where the connection comes from", expected.peer));
  if (differs(document.private_ip, expected.private_ip))
    return mismatch(Refusal::hello_wrong_address, "privateIp", document.private_ip,
                    fmt::format("{}, which EC2 shows", expected.private_ip));
  return std::nullopt;
}

}  // namespace warmroot::manager
