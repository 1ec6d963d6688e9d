// User-data: its form as cloud-init reads it, its limit, and its script run for real in a folder of
// its own against a server on the loopback.
#include "manager/user_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "manager/aws/sigv4.hpp"

namespace warmroot::manager {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

UserDataParts parts_of_a_pool() {
  UserDataParts parts;
  parts.ticket = {
      .deployment = "research", .pool = "imagenet", .manager_url = "http://127.0.0.1:1"};
  parts.bootstrap_sha256 = std::string(64, 'a');
  return parts;
}

std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// The boothook as cloud-init would store it: the part without its header line.
std::string boothook_of(const std::string& user_data) {
  const std::string start = "#cloud-boothook\n";
  const std::size_t first = user_data.find(start) + start.size();
  return user_data.substr(first, user_data.find("\n--warmroot-boundary", first) - first + 1);
}

TEST(UserData, is_a_mime_message_whose_boothook_has_its_own_interpreter_line) {
  UserDataParts parts = parts_of_a_pool();
  parts.operators_part = "#cloud-config\npackages: [htop]\n";
  const auto text = render_user_data(parts);
  ASSERT_TRUE(text.has_value()) << text.error().message();
  EXPECT_TRUE(text->starts_with(
      "Content-Type: multipart/mixed; boundary=\"warmroot-boundary\"\nMIME-Version: 1.0\n\n--"));
  EXPECT_THAT(*text, HasSubstr("Content-Type: text/cloud-boothook; charset=\"utf-8\"\n"
                               "Content-Transfer-Encoding: 7bit\n\n#cloud-boothook\n#!/bin/sh\n"));
  EXPECT_THAT(*text,
              HasSubstr("Content-Type: text/cloud-config; charset=\"utf-8\"\n"
                        "Content-Transfer-Encoding: 7bit\n\n#cloud-config\npackages: [htop]\n"));
  EXPECT_TRUE(text->ends_with("\n--warmroot-boundary--\n"));
  EXPECT_THAT(*text, Not(HasSubstr("{{")));
  EXPECT_EQ(*text, *render_user_data(parts)) << "the bytes are part of an idempotent request";
}

TEST(UserData, carries_the_ticket_as_the_bootstrap_reads_it) {
  const auto text = render_user_data(parts_of_a_pool());
  const std::size_t start = text->find("{\"version\"");
  const auto ticket = nlohmann::json::parse(text->substr(start, text->find('\n', start) - start));
  EXPECT_EQ(ticket, nlohmann::json::parse(R"({"version":1,"deployment":"research","pool":"imagenet",
      "manager_url":"http://127.0.0.1:1","session":{"entry":"chroot","host_keys":true,"rescue_port":0},"warm":{"enabled":true,"record":true,"max_depth":0}})"));
}

TEST(UserData, bounds_the_warmer_where_the_spec_does) {
  Ticket ticket = parts_of_a_pool().ticket;
  const auto warm = [&] { return nlohmann::json::parse(to_json(ticket)).at("warm"); };
  EXPECT_FALSE(warm().contains("max_mib_s"));
  ticket.max_mib_s = 80;
  EXPECT_EQ(warm().at("max_mib_s"), 80);
}

TEST(UserData, tells_what_the_volume_writes_where_the_spec_does) {
  Ticket ticket = parts_of_a_pool().ticket;
  const auto session = [&] { return nlohmann::json::parse(to_json(ticket)).at("session"); };
  EXPECT_EQ(session().at("entry"), "chroot");
  EXPECT_FALSE(session().contains("write_mib_s"));
  ticket.write_mib_s = 500;
  EXPECT_EQ(session().at("entry"), "chroot");
  EXPECT_EQ(session().at("write_mib_s"), 500);
}

TEST(UserData, has_logins_wait_as_long_as_the_spec_says) {
  Ticket ticket = parts_of_a_pool().ticket;
  const auto session = [&] { return nlohmann::json::parse(to_json(ticket)).at("session"); };
  EXPECT_FALSE(session().contains("login_wait_s"));
  ticket.login_wait_s = 0;
  EXPECT_EQ(session().at("login_wait_s"), 0);
}

TEST(UserData, asks_for_a_root_that_grows_where_the_spec_does) {
  Ticket ticket = parts_of_a_pool().ticket;
  EXPECT_FALSE(nlohmann::json::parse(to_json(ticket)).contains("volume"));
  ticket.grow = true;
  EXPECT_EQ(nlohmann::json::parse(to_json(ticket)).at("volume").at("grow"), true);
}

TEST(UserData, avoids_a_boundary_that_the_operators_part_contains) {
  UserDataParts parts = parts_of_a_pool();
  parts.operators_part = "#!/bin/sh\n--warmroot-boundary\n";
  EXPECT_THAT(*render_user_data(parts), HasSubstr("boundary=\"warmroot-boundary-0\""));
}

TEST(UserData, encodes_an_operators_part_beyond_ascii) {
  UserDataParts parts = parts_of_a_pool();
  parts.operators_part = "#!/bin/sh\necho gr\xc3\xbc\xc3\x9f dich\n";
  const auto text = render_user_data(parts);
  EXPECT_THAT(
      *text,
      HasSubstr("text/x-shellscript; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\n\n"
                "IyEvYmluL3NoCmVjaG8gZ3LDvMOfIGRpY2gK\n"));
}

TEST(UserData, over_the_limit_is_refused_with_sizes_and_remedy) {
  UserDataParts parts = parts_of_a_pool();
  parts.operators_part = "#!/bin/sh\n" + std::string(16000, '#');
  const auto text = render_user_data(parts);
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(text.error().context, HasSubstr("EC2 allows 16384"));
  EXPECT_THAT(text.error().context,
              HasSubstr("the operator's part (launch.user_data) is 16010 bytes, shorten it by"));
}

TEST(UserData, leaves_the_operator_most_of_the_limit) {
  EXPECT_LT(render_user_data(parts_of_a_pool())->size(), 4096u);
}

TEST(UserData, quotes_words_for_the_shell) {
  EXPECT_EQ(shell_quoted("a'b $(c)"), "'a'\\''b $(c)'");
}

/// A machine's root folder, a manager that serves a bootstrap, and the boothook run between them.
class Boothook : public testing::Test {
 protected:
  Boothook() {
    std::string name = testing::TempDir() + "boothook-XXXXXX";
    root_ = ::mkdtemp(name.data());
    port_ = server_.bind_to_any_port("127.0.0.1");
    server_.Get("/bootstrap/warmroot-bootstrap",
                [this](const httplib::Request& request, httplib::Response& reply) {
                  asked_for_ = request.get_param_value("sha256");
                  if (++requests_ <= failures_) {
                    reply.status = 503;
                    return;
                  }
                  reply.set_content(program_, "application/octet-stream");
                });
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Boothook() override {
    server_.stop();
    thread_.join();
    fs::remove_all(root_);
  }

  /// Runs the boothook and returns its exit status. `path`: where the machine's tools are.
  int run(const std::string& sha256, const std::string& path = "") {
    UserDataParts parts = parts_of_a_pool();
    parts.ticket.manager_url = "http://127.0.0.1:" + std::to_string(port_);
    parts.bootstrap_sha256 = sha256;
    std::string script = boothook_of(*render_user_data(parts));
    const auto shorten = [&](const std::string& from, const std::string& to) {
      script.replace(script.find(from), from.size(), to);
    };
    shorten("patience_s=120", "patience_s=3");
    shorten("pause_s=15", "pause_s=1");
    write_file(root_ / "hook", script);
    const std::string command =
        "WARMROOT_ROOT=" + root_.string() + " WARMROOT_CONSOLE=" + console().string() +
        (path.empty() ? "" : " PATH=" + path) + " /bin/sh " + (root_ / "hook").string();
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static std::string sha256_of(const std::string& text) { return aws::sha256_hex(text); }
  fs::path console() const { return root_ / "console"; }
  fs::path log() const { return root_ / "run/warmroot/boothook.log"; }

  fs::path root_;
  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
  std::string asked_for_;  ///< by the last request
  std::atomic<int> requests_ = 0;
  std::atomic<int> failures_ = 0;
  std::string program_ = "#!/bin/sh\necho started \"$@\"; cat \"$3\"\n";
};

TEST_F(Boothook, fetches_checks_and_starts_the_bootstrap_with_its_ticket) {
  EXPECT_EQ(run(sha256_of(program_)), 0) << file_text(log());
  EXPECT_THAT(file_text(log()),
              HasSubstr("started up --ticket " + root_.string() + "/run/warmroot/ticket.json"));
  EXPECT_THAT(file_text(log()), HasSubstr("\"pool\":\"imagenet\""));
  EXPECT_EQ(file_text(console()), "") << "nothing to complain of";
  ASSERT_EQ(requests_, 1);
  EXPECT_EQ(asked_for_, sha256_of(program_)) << "the manager may have been upgraded since";
}

TEST_F(Boothook, needs_no_manager_at_the_next_boot) {
  EXPECT_EQ(run(sha256_of(program_)), 0);
  fs::remove_all(root_ / "run");
  failures_ = 1000;
  EXPECT_EQ(run(sha256_of(program_)), 0) << file_text(log());
  EXPECT_EQ(file_text(root_ / "run/warmroot/bin/warmroot-bootstrap"), program_)
      << "where people in a session find it";
  EXPECT_THAT(file_text(log()), HasSubstr("started up"));
  EXPECT_EQ(requests_, 1);
}

TEST_F(Boothook, fetches_again_what_a_power_cut_left_torn) {
  EXPECT_EQ(run(sha256_of(program_)), 0);
  fs::resize_file(root_ / "var/lib/warmroot/bin/warmroot-bootstrap", 7);
  EXPECT_EQ(run(sha256_of(program_)), 0) << file_text(log());
  EXPECT_EQ(requests_, 2);
}

TEST_F(Boothook, runs_from_run_where_the_base_cannot_be_written) {
  write_file(root_ / "var", "no folder");
  EXPECT_EQ(run(sha256_of(program_)), 0) << file_text(log());
  EXPECT_TRUE(fs::exists(root_ / "run/warmroot/bin/warmroot-bootstrap"));
}

TEST_F(Boothook, tries_again_while_the_manager_is_not_ready) {
  failures_ = 1;
  EXPECT_EQ(run(sha256_of(program_)), 0) << file_text(log());
  EXPECT_EQ(requests_, 2);
}

TEST_F(Boothook, refuses_a_program_with_another_digest) {
  EXPECT_EQ(run(std::string(64, '0')), 1);
  EXPECT_THAT(file_text(console()), HasSubstr("is not the one this instance was launched with"));
  EXPECT_THAT(file_text(console()), HasSubstr("sessions stay on the base system\n"));
  EXPECT_EQ(file_text(console()), file_text(log()));
  EXPECT_FALSE(fs::exists(root_ / "var/lib/warmroot/bin/warmroot-bootstrap"));
}

/// An outage of the manager at a launch was for good: no handover ever reached the instance.
TEST_F(Boothook, lets_the_boot_go_on_where_the_manager_cannot_be_reached_and_goes_on_trying) {
  failures_ = 1000;
  EXPECT_EQ(run(sha256_of(program_)), 1);
  const std::string told = file_text(console());
  EXPECT_THAT(told, HasSubstr("cannot fetch the bootstrap from http://127.0.0.1:"));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1);
  EXPECT_THAT(file_text(root_ / "run/motd.d/warmroot"), HasSubstr("this is the base system"));
  failures_ = 0;
  for (int i = 0; i < 600 && file_text(log()).find("started up") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_THAT(file_text(log()), HasSubstr("started up --ticket"));
  EXPECT_EQ(file_text(console()), told) << "and said so again and again";
}

TEST_F(Boothook, tells_of_a_bootstrap_that_fails_at_once) {
  program_ = "#!/bin/sh\necho no disk; exit 7\n";
  EXPECT_EQ(run(sha256_of(program_)), 1);
  EXPECT_THAT(file_text(console()), HasSubstr("the bootstrap could not start (status 7)"));
  EXPECT_THAT(file_text(log()), HasSubstr("no disk\n"));
}

TEST_F(Boothook, manages_with_any_one_of_its_three_ways_to_fetch) {
  for (const std::string tool : {"curl", "wget", "python3"}) {
    const fs::path bin = root_ / ("bin-" + tool);
    fs::create_directory(bin);
    for (const std::string& name :
         {std::string("mkdir"), std::string("chmod"), std::string("cat"), std::string("rm"),
          std::string("mv"), std::string("sha256sum"), std::string("timeout"), std::string("tail"),
          std::string("sleep"), tool})
      if (fs::exists("/usr/bin/" + name)) fs::create_symlink("/usr/bin/" + name, bin / name);
    if (!fs::exists(bin / tool)) continue;  // the other two still count
    EXPECT_EQ(run(sha256_of(program_), bin.string()), 0) << tool << ": " << file_text(log());
  }
}

TEST_F(Boothook, says_so_where_no_tool_can_fetch) {
  const fs::path bin = root_ / "bin-none";
  fs::create_directory(bin);
  for (const char* name : {"mkdir", "chmod", "cat", "rm"})
    fs::create_symlink(fs::path("/usr/bin") / name, bin / name);
  EXPECT_EQ(run(sha256_of(program_), bin.string()), 1);
  EXPECT_THAT(file_text(console()), HasSubstr("none of curl, wget and python3 is installed"));
}

TEST(BoothookTemplate, is_accepted_by_the_shell) {
  write_file(fs::path(testing::TempDir()) / "hook.sh",
             boothook_of(*render_user_data(parts_of_a_pool())));
  EXPECT_EQ(std::system(("sh -n " + testing::TempDir() + "hook.sh").c_str()), 0);
}

}  // namespace
}  // namespace warmroot::manager
