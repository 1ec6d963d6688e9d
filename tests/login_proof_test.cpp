// What one lease of a volume tells the next of its logins, and when that counts.
#include "bootstrap/login_proof.hpp"

#include <gtest/gtest.h>

namespace warmroot::bootstrap {
namespace {

const LoginProof kProof{"vol-0abc", "i-1", "chroot root 0 /bin/bash", key_checksum("a key")};

User root(const std::string& shell = "/bin/bash") {
  return {"root", "x", "", "/root", shell, 0, 0};
}

TEST(LoginProof, what_is_read_is_what_was_written) {
  for (const std::string& host_key : {kProof.host_key, std::string()}) {
    LoginProof proof = kProof;
    proof.host_key = host_key;
    const std::string text = proof_document(proof);
    const auto read = parse_proof(text);
    ASSERT_TRUE(read);
    EXPECT_EQ(proof_document(*read), text);
    EXPECT_EQ(read->volume_id, "vol-0abc");
    EXPECT_EQ(read->instance_id, "i-1");
    EXPECT_EQ(read->login, login_line(root()));
    EXPECT_EQ(read->host_key, host_key);
  }
}

TEST(LoginProof, a_document_that_was_cut_or_added_to_is_none) {
  const std::string text = proof_document(kProof);
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes)
    EXPECT_FALSE(parse_proof(text.substr(0, bytes))) << bytes;
  EXPECT_FALSE(parse_proof(text + "\n"));
  EXPECT_FALSE(parse_proof("\n" + text));
  EXPECT_FALSE(parse_proof(std::string(4096, '\0')));
}

TEST(LoginProof, another_name_uid_or_shell_is_another_login) {
  const std::string line = login_line(root());
  User user = root("/bin/sh");
  EXPECT_NE(login_line(user), line);
  user = root();
  user.uid = 1000;
  EXPECT_NE(login_line(user), line);
  user = root();
  user.name = "toor";
  EXPECT_NE(login_line(user), line);
}

TEST(LoginProof, it_counts_on_its_volume_and_behind_its_own_lease_alone) {
  const std::string text = proof_document(kProof);
  EXPECT_TRUE(counting_proof(text, clean_marker("i-1"), "vol-0abc"));
  EXPECT_FALSE(counting_proof(text, clean_marker("i-1"), "vol-0def")) << "a copy";
  EXPECT_FALSE(counting_proof(text, open_marker("i-1"), "vol-0abc")) << "a power cut";
  EXPECT_FALSE(counting_proof(text, clean_marker("i-2"), "vol-0abc")) << "nobody tried it since";
  for (const char* marker : {"", "clean", "clean i-1", "clean i-1\nclean i-1\n", "first use\n"})
    EXPECT_FALSE(counting_proof(text, marker, "vol-0abc")) << marker;
  LoginProof nobodys = kProof;
  nobodys.instance_id.clear();
  EXPECT_FALSE(counting_proof(proof_document(nobodys), clean_marker(""), "vol-0abc"));
  nobodys = kProof;
  nobodys.volume_id.clear();
  EXPECT_FALSE(counting_proof(proof_document(nobodys), clean_marker("i-1"), "")) << "no id";
}

}  // namespace
}  // namespace warmroot::bootstrap
