// SigV4 against known answers: AWS's public signing test suite (header form) and requests of our
// services that two independent implementations signed alike, then one test per rule that is easy
// to get wrong.
#include "manager/aws/sigv4.hpp"

#include <gtest/gtest.h>

using namespace warmroot;
using namespace warmroot::aws;

namespace {

const Credentials kKeys{"AKIDEXAMPLE", Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
                        Secret()};
constexpr const char* kFormType = "application/x-www-form-urlencoded; charset=utf-8";
constexpr const char* kAttach =
    "Action=AttachVolume&Version=2016-11-15&VolumeId=vol-0123456789abcdef0&InstanceId="
    "i-0123456789abcdef0&Device=%2Fdev%2Fsdf";

Instant at(const char* text) {
  return *parse_iso8601(text);
}

std::string header(const Headers& headers, const std::string& name) {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::string signature_of(const Headers& headers) {
  const std::string authorization = header(headers, "Authorization");
  return authorization.substr(authorization.find("Signature=") + 10);
}

std::string hex_of(const std::string& bytes) {
  std::string out;
  char buffer[3];
  for (const unsigned char c : bytes) {
    std::snprintf(buffer, sizeof(buffer), "%02x", c);
    out += buffer;
  }
  return out;
}

struct SuiteCase {
  const char* name;
  SigningRequest request;  ///< Host is added by the test
  const char* signature;
};

const std::string kUnreserved =
    "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const std::vector<SuiteCase>& suite() {
  static const std::vector<SuiteCase> cases = {
      {"get-vanilla",
       {"GET", "/", {}, {}, ""},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-empty-query-key",
       {"GET", "/", {{"Param1", "value1"}}, {}, ""},
       "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
      {"get-vanilla-query-order-key-case",
       {"GET", "/", {{"Param2", "value2"}, {"Param1", "value1"}}, {}, ""},
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-query-unreserved",
       {"GET", "/", {{kUnreserved, kUnreserved}}, {}, ""},
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
      {"get-vanilla-utf8-query",
       {"GET", "/", {{"\xe1\x88\xb4", "bar"}}, {}, ""},
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {"get-unreserved",
       {"GET", "/" + kUnreserved, {}, {}, ""},
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
      {"get-utf8",
       {"GET", "/\xe1\x88\xb4", {}, {}, ""},
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get-space-normalized",
       {"GET", "/example space/", {}, {}, ""},
       "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
      {"get-relative-normalized",
       {"GET", "/example/..", {}, {}, ""},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-relative-relative-normalized",
       {"GET", "/example1/example2/../..", {}, {}, ""},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-slash-dot-slash-normalized",
       {"GET", "/./", {}, {}, ""},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-slash-normalized",
       {"GET", "//", {}, {}, ""},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-slash-pointless-dot-normalized",
       {"GET", "/./example", {}, {}, ""},
       "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5"},
      {"get-slashes-normalized",
       {"GET", "//example//", {}, {}, ""},
       "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"},
      {"get-header-key-duplicate",
       {"GET",
        "/",
        {},
        {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}},
        ""},
       "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
      {"get-header-value-order",
       {"GET",
        "/",
        {},
        {{"My-Header1", "value4"},
         {"My-Header1", "value1"},
         {"My-Header1", "value3"},
         {"My-Header1", "value2"}},
        ""},
       "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
      {"get-header-value-multiline",
       {"GET", "/", {}, {{"My-Header1", "value1\n  value2\n     value3"}}, ""},
       "cfd34249e4b1c8d6b91ef74165d41a32e5fab3306300901bb65a51a73575eefd"},
      {"get-header-value-trim",
       {"GET", "/", {}, {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}, ""},
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"post-vanilla",
       {"POST", "/", {}, {}, ""},
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"post-vanilla-query",
       {"POST", "/", {{"Param1", "value1"}}, {}, ""},
       "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
      {"post-header-key-case",
       {"POST", "/", {}, {{"MY-HEADER1", "value1"}}, ""},
       "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
      {"post-header-value-case",
       {"POST", "/", {}, {{"My-Header1", "VALUE1"}}, ""},
       "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
      {"post-x-www-form-urlencoded",
       {"POST", "/", {}, {{"Content-Type", "application/x-www-form-urlencoded"}}, "Param1=value1"},
       "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
  };
  return cases;
}

struct KnownAnswer {
  int number;
  std::string service;
  SigningRequest request;
  std::string token;
  const char* canonical_sha256;
  const char* signature;
};

std::vector<KnownAnswer> known_answers() {
  const auto ec2 = [](const char* host, const char* body) {
    return SigningRequest{"POST", "/", {}, {{"content-type", kFormType}, {"host", host}}, body};
  };
  const std::string ebs = "ebs.us-east-1.amazonaws.com";
  const std::string blocks = "/snapshots/snap-0123456789abcdef0/blocks";
  return {
      {1, "ec2", ec2("ec2.us-east-1.amazonaws.com", kAttach), "",
       "cd347e3bf02be89614f9037baa506a04b5f456123649bcae0530bac04e7843e6",
       "a1e80b1485d03c640d1c069c218d75e06668dd30f8f734b95cd8fa6a14c558a2"},
      {2, "ec2", ec2("ec2.us-east-1.amazonaws.com", kAttach),
       "AQoTOKEN/+==", "864d5d5281e4c4630e34f72ec9ad7f8181039b76b696e1fe117e4d21f289a130",
       "85995f64927ed2253d40ff90da9efe772a4a559e8bb768ea49faa58d9869309b"},
      {3, "ec2", ec2("127.0.0.1:8080", kAttach), "",
       "1cfcd759909222bca10daa91ff37a24f00eff37e185711fe93006f2d53252d53",
       "791f0153158f458328b4209694aa810a93ae1c4a9ab9af88226236ff51f213f7"},
      {4, "ec2",
       ec2("ec2.us-east-1.amazonaws.com",
           "Action=DescribeVolumes&Version=2016-11-15&Filter.1.Name=tag%3Awarmroot%3Apool&Filter.1."
           "Value.1=a+b&Filter.1.Value.2=c%2A&Filter.2.Name=status&Filter.2.Value.1=available&"
           "MaxResults=500"),
       "", "07d071e47b76c1aa83d55ab1a37dd10ac614f2c246e3d04a6f87ba5c17cbabcd",
       "212cb6bc2da7b6d43b0ed373e79c3e3e7c2565daaa948ca546692654eeebd5b4"},
      {5,
       "ebs",
       {"GET",
        blocks,
        {{"maxResults", "1000"}, {"startingBlockIndex", "5"}, {"pageToken", "AAA+/="}},
        {{"host", ebs}},
        ""},
       "",
       "08f6958142475a2cc6d037361cea6848452f4350d7079d3d4312514c99ea490e",
       "5b877ae497d8a0fa8af81f96b092ad061413a29f13596fdc069c33c8f3edc470"},
      {6,
       "ebs",
       {"GET",
        blocks + "/3",
        {{"blockToken", "AAUBAcuWqOCnDNuKle11s7IIX6jp6FYcC/q8oT93913HhvLvA+3JRrSybp/0"}},
        {{"host", ebs}},
        ""},
       "",
       "a92234f4489a00fe2bf103b487643d58423c8b1ce2b256bc2dc4fe45b548ae32",
       "5988e3c8c8cb1921af092613336483408b34aefd7ea7961dec42c58165fcf179"},
      {7,
       "sqs",
       {"POST",
        "/",
        {},
        {{"content-type", "application/x-amz-json-1.0"},
         {"host", "sqs.us-east-1.amazonaws.com"},
         {"x-amz-target", "AmazonSQS.ReceiveMessage"},
         {"x-amzn-query-mode", "true"}},
        "{\"QueueUrl\": \"https://sqs.us-east-1.amazonaws.com/111122223333/q\", "
        "\"MaxNumberOfMessages\": 10, \"WaitTimeSeconds\": 20}"},
       "",
       "cf83f6be556d98b714f38e992a60c63f07696b84946f5e3ebbe4008ed18916d3",
       "fa811c1decafe8fbc5cf111ccecb3a701521eef325eae1bd11c6bac7f6e0be44"},
  };
}

}  // namespace

TEST(SigV4Suite, every_case_of_the_public_suite_has_its_published_signature) {
  const SigningScope scope{at("2015-08-30T12:36:00Z"), "us-east-1", "service"};
  for (const SuiteCase& test : suite()) {
    SigningRequest request = test.request;
    request.headers.emplace_back("Host", "example.amazonaws.com");
    EXPECT_EQ(signature_of(sign(request, kKeys, scope)), test.signature) << test.name;
  }
}

TEST(SigV4Suite, a_session_token_is_sent_and_signed) {
  const Credentials with_token{
      kKeys.access_key_id, kKeys.secret_access_key,
      Secret(
          "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXm"
          "xfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburED"
          "y0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL6"
          "4lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==")};
  const SigningScope scope{at("2015-08-30T12:36:00Z"), "us-east-1", "service"};
  const SigningRequest request{"POST", "/", {}, {{"Host", "example.amazonaws.com"}}, ""};
  const Headers headers = sign(request, with_token, scope);
  EXPECT_EQ(header(headers, "x-amz-security-token"), with_token.session_token.reveal());
  EXPECT_EQ(signature_of(headers),
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead");
}

TEST(SigV4KnownAnswers, canonical_request_and_signature_of_our_services_match) {
  for (const KnownAnswer& test : known_answers()) {
    const SigningScope scope{at("2026-01-02T03:04:05Z"), "us-east-1", test.service};
    const Credentials keys{kKeys.access_key_id, kKeys.secret_access_key, Secret(test.token)};
    SigningRequest whole = test.request;
    whole.headers.emplace_back("x-amz-date", "20260102T030405Z");
    if (!test.token.empty()) whole.headers.emplace_back("x-amz-security-token", test.token);
    EXPECT_EQ(sha256_hex(canonical_request(whole).text), test.canonical_sha256) << test.number;
    EXPECT_EQ(signature_of(sign(test.request, keys, scope)), test.signature) << test.number;
  }
}

TEST(SigV4KnownAnswers, signing_keys_match) {
  const auto key = [](const char* service) {
    return hex_of(
        signing_key(kKeys.secret_access_key, {at("2026-01-02T03:04:05Z"), "us-east-1", service}));
  };
  EXPECT_EQ(key("ec2"), "9c016d41f96ed5cf6bfc0f4dc8f4f47fb612d70bdc25f169af4d77a46662741a");
  EXPECT_EQ(key("ebs"), "8bf1cc5d94d2ac0a315c32847f33e70283aadcb17db4604ae9ae5af5eae47447");
  EXPECT_EQ(key("sqs"), "2ff297a9677e4dae14c807deddfda42a648728a19457402a48e239ed0efff414");
}

TEST(SigV4Rules, rule_1_an_empty_line_stands_between_headers_and_signed_headers) {
  const CanonicalRequest canonical = canonical_request({"GET", "/", {}, {{"host", "h"}}, ""});
  EXPECT_EQ(canonical.text,
            "GET\n/\n\nhost:h\n\nhost\n"
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(SigV4Rules, rule_2_paths_are_normalised_and_encoded_a_second_time) {
  EXPECT_EQ(canonical_path(""), "/");
  EXPECT_EQ(canonical_path("/"), "/");
  EXPECT_EQ(canonical_path("/a/b"), "/a/b");
  EXPECT_EQ(canonical_path("/a//b/"), "/a/b/");
  EXPECT_EQ(canonical_path("/a/./b/../c"), "/a/c");
  EXPECT_EQ(canonical_path("/../.."), "/");
  EXPECT_EQ(canonical_path("/a/.."), "/");
  EXPECT_EQ(canonical_path("/a%2Fb"), "/a%252Fb");
  EXPECT_EQ(canonical_path("/a:b"), "/a%3Ab");
}

TEST(SigV4Rules, rule_3_queries_are_encoded_then_sorted_by_key_and_value) {
  EXPECT_EQ(canonical_query({{"b", "2"}, {"a", "z"}, {"a", "y"}, {"u", "x/y="}}),
            "a=y&a=z&b=2&u=x%2Fy%3D");
  EXPECT_EQ(canonical_query({{"k", ""}}), "k=");
  EXPECT_EQ(canonical_query({{"k", "a b+c~"}}), "k=a%20b%2Bc~");
  // '[' is behind 'Z' and before 'a' as it is, but encoded (%5B) it is before both.
  EXPECT_EQ(canonical_query({{"Z", "1"}, {"[", "2"}}), "%5B=2&Z=1");
}

TEST(SigV4Rules, rule_4_headers_are_lowered_sorted_trimmed_collapsed_and_joined) {
  const CanonicalRequest canonical = canonical_request(
      {"GET",
       "/",
       {},
       {{"X-B", "  \"a   b\"  "}, {"HOST", "h"}, {"x-a", "2"}, {"X-A", "1\r\n  more\t text"}},
       ""});
  EXPECT_EQ(canonical.signed_headers, "host;x-a;x-b");
  EXPECT_NE(canonical.text.find("\nhost:h\nx-a:2,1 more text\nx-b:\"a b\"\n\n"), std::string::npos);
}

TEST(SigV4Rules, rule_5_the_port_of_the_host_header_is_part_of_the_signature) {
  const SigningScope scope{at("2026-01-02T03:04:05Z"), "us-east-1", "ec2"};
  const Headers plain = sign({"POST", "/", {}, {{"host", "127.0.0.1"}}, ""}, kKeys, scope);
  const Headers port = sign({"POST", "/", {}, {{"host", "127.0.0.1:8080"}}, ""}, kKeys, scope);
  EXPECT_NE(signature_of(plain), signature_of(port));
}

TEST(SigV4Rules, rule_6_hop_by_hop_and_mutable_headers_are_not_signed) {
  Headers headers = {{"host", "h"}};
  for (const char* name :
       {"Connection", "Expect", "Keep-Alive", "Proxy-Authorization", "TE", "Trailer",
        "Transfer-Encoding", "Upgrade", "User-Agent", "X-Amzn-Trace-Id", "Authorization"})
    headers.emplace_back(name, "x");
  EXPECT_EQ(canonical_request({"GET", "/", {}, headers, ""}).signed_headers, "host");
}

TEST(SigV4Rules, rule_7_date_and_token_are_headers_and_the_scope_has_the_same_day) {
  const SigningScope scope{at("2026-01-02T23:59:59.999Z"), "us-east-1", "ec2"};
  const Credentials keys{"AK", Secret("s"), Secret("token")};
  const Headers headers = sign({"POST", "/", {}, {{"host", "h"}}, ""}, keys, scope);
  EXPECT_EQ(header(headers, "x-amz-date"), "20260102T235959Z");
  EXPECT_EQ(header(headers, "x-amz-security-token"), "token");
  EXPECT_NE(header(headers, "Authorization").find("/20260102/us-east-1/ec2/"), std::string::npos);
  EXPECT_NE(header(headers, "Authorization").find("x-amz-security-token"), std::string::npos);
}

TEST(SigV4Rules, rule_8_the_body_is_hashed_byte_for_byte) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(kAttach),
            "f5483dd20c5667a65cad5605e8fa6f715da49fc9dcf696afcd6e5531c4f60bf2");
}

TEST(SigV4Rules, rule_9_keys_differ_by_day_region_and_service) {
  const Instant day = at("2026-01-02T00:00:00Z");
  const std::string key = signing_key(kKeys.secret_access_key, {day, "us-east-1", "ec2"});
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key, signing_key(kKeys.secret_access_key,
                             {day + std::chrono::hours(23), "us-east-1", "ec2"}));
  EXPECT_NE(key, signing_key(kKeys.secret_access_key,
                             {day + std::chrono::hours(24), "us-east-1", "ec2"}));
  EXPECT_NE(key, signing_key(kKeys.secret_access_key, {day, "us-west-2", "ec2"}));
  EXPECT_NE(key, signing_key(kKeys.secret_access_key, {day, "us-east-1", "sts"}));
}

TEST(SigV4Rules, rule_10_the_authorization_header_has_comma_and_space) {
  const SigningRequest request{"GET", "/", {}, {{"Host", "example.amazonaws.com"}}, ""};
  const Headers headers =
      sign(request, kKeys, {at("2015-08-30T12:36:00Z"), "us-east-1", "service"});
  EXPECT_EQ(header(headers, "Authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            "SignedHeaders=host;x-amz-date, "
            "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

TEST(SigV4Rules, rule_11_and_12_another_service_or_a_later_retry_signs_anew) {
  const SigningRequest request{"POST", "/", {}, {{"host", "h"}}, kAttach};
  const Instant now = at("2026-01-02T03:04:05Z");
  const std::string first = signature_of(sign(request, kKeys, {now, "us-east-1", "ec2"}));
  EXPECT_NE(first, signature_of(sign(request, kKeys, {now, "us-east-1", "sqs"})));
  EXPECT_NE(first, signature_of(
                       sign(request, kKeys, {now + std::chrono::seconds(1), "us-east-1", "ec2"})));
}

TEST(Form, encoding_and_parsing_are_inverse_and_plus_reads_as_a_space) {
  const Form form = {{"a", "x y+z&=%"}, {"b", ""}, {"k.1", "\xc3\xa9~"}};
  EXPECT_EQ(encode_form(form), "a=x%20y%2Bz%26%3D%25&b=&k.1=%C3%A9~");
  EXPECT_EQ(parse_form(encode_form(form)), form);
  EXPECT_EQ(parse_form("a=b+c&&d&e=%4"), (Form{{"a", "b c"}, {"d", ""}, {"e", "%4"}}));
}
