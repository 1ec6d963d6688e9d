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

TEST(HostKeyDocument, without_keys_or_with_a_type_that_is_a_path_is_refused) {
  EXPECT_FALSE(parse_host_key_document(host_key_document({"vol-0abc", {}})));
  EXPECT_FALSE(parse_host_key_document(host_key_document({"vol-0abc", {{"../x", "text"}}})));
  EXPECT_FALSE(parse_host_key_document(host_key_document({"v", {{"rsa", "one"}, {"rsa", "two"}}})));
}

}  // namespace
}  // namespace warmroot::bootstrap
