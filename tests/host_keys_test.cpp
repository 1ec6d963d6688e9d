// The file in which a volume keeps its node's host keys: whole or refused.
#include <gmock/gmock.h>

#include "bootstrap/host_key_document.hpp"

namespace warmroot::bootstrap {
namespace {

HostKeys two_keys() {
  return {"vol-0abc",
          {{"ed25519", "-----BEGIN\nsum of all\n-----END\n"}, {"rsa", "no line's end"}}};
}

TEST(HostKeyDocument, is_read_back_as_it_was_written) {
  const auto back = parse_host_key_document(host_key_document(two_keys()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->volume_id, "vol-0abc");
  ASSERT_EQ(back->keys.size(), 2u);
  EXPECT_EQ(back->keys[0].text, "-----BEGIN\nsum of all\n-----END\n");
  EXPECT_EQ(back->keys[1].text, "no line's end");
  EXPECT_TRUE(back->has("rsa"));
  EXPECT_FALSE(back->has("ecdsa"));
}

TEST(HostKeyDocument, of_a_volume_whose_id_nobody_knew_is_read_too) {
  HostKeys keys = two_keys();
  keys.volume_id.clear();
  const auto back = parse_host_key_document(host_key_document(keys));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->volume_id, "");
}

TEST(HostKeyDocument, cut_anywhere_is_refused) {
  // sshd without a readable key would keep everybody out.
  const std::string text = host_key_document(two_keys());
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(parse_host_key_document(text.substr(0, size))) << size;
}

TEST(HostKeyDocument, with_any_byte_changed_is_refused) {
  const std::string text = host_key_document(two_keys());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] ^= 1;
    EXPECT_FALSE(parse_host_key_document(changed)) << at;
  }
}

TEST(HostKeys, of_one_type_replace_each_other) {
  HostKeys keys = two_keys();
  keys.put({"ed25519", "new"});
  keys.put({"ecdsa", "other"});
  EXPECT_EQ(keys.keys.size(), 3u);
  EXPECT_EQ(keys.find("ed25519")->text, "new");
  EXPECT_EQ(keys.find("rsa")->text, "no line's end");
  EXPECT_EQ(keys.find("dsa"), nullptr);
}

TEST(HostKeys, are_of_the_type_that_ssh_keygen_says) {
  EXPECT_TRUE(says_type("ssh-ed25519 AAAA warmroot\n", "ed25519"));
  EXPECT_TRUE(says_type("ecdsa-sha2-nistp256 AAAA\n", "ecdsa"));
  EXPECT_TRUE(says_type("a warning\nssh-rsa AAAA\n", "rsa"));
  EXPECT_FALSE(says_type("ssh-rsa AAAA\n", "ed25519"));
  EXPECT_FALSE(says_type("sk-ecdsa-sha2-nistp256@openssh.com AAAA\n", "ecdsa"));
  EXPECT_FALSE(says_type("Load key \"/x\": error in libcrypto\n", "ed25519"));
  EXPECT_FALSE(says_type("", "ed25519"));
}

TEST(HostKeys, are_proven_by_a_good_signature_of_their_type) {
  EXPECT_TRUE(is_good_signature(
      "Good \"warmroot\" signature with ED25519 key SHA256:ikkny55GHloFxxIgEWJ\n", "ed25519"));
  EXPECT_FALSE(is_good_signature("Good \"warmroot\" signature with RSA key SHA256:x\n", "ecdsa"));
  EXPECT_FALSE(
      is_good_signature("Signature verification failed: incorrect signature\n"
                        "Could not verify signature with RSA key .\n",
                        "rsa"));
  EXPECT_FALSE(is_good_signature("", "rsa"));
}

TEST(HostKeyDocument, without_keys_or_with_a_type_that_is_a_path_is_refused) {
  EXPECT_FALSE(parse_host_key_document(host_key_document({"vol-0abc", {}})));
  EXPECT_FALSE(parse_host_key_document(host_key_document({"vol-0abc", {{"../x", "text"}}})));
  EXPECT_FALSE(parse_host_key_document(host_key_document({"v", {{"rsa", "one"}, {"rsa", "two"}}})));
}

}  // namespace
}  // namespace warmroot::bootstrap
