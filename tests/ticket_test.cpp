#include "bootstrap/ticket.hpp"

#include <gmock/gmock.h>

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;

TEST(Ticket, the_manager_s_ticket_is_read_whole) {
  const auto ticket = parse_ticket(
      R"({"version":1,"deployment":"research","pool":"imagenet","manager_url":"http://10.0.0.1:8470/",
          "session":{"entry":"sshd","write_mib_s":500,"host_keys":false,"rescue_port":2222,"login_wait_s":90,"grace_s":60,"hooks_s":0},"warm":{"enabled":false,"record":false,"max_depth":64,"max_mib_s":80},
          "volume":{"grow":true}})");
  ASSERT_TRUE(ticket);
  EXPECT_EQ(ticket->deployment, "research");
  EXPECT_EQ(ticket->pool, "imagenet");
  EXPECT_EQ(ticket->manager_url, "http://10.0.0.1:8470");
  EXPECT_EQ(ticket->entry, EntryKind::sshd);
  EXPECT_FALSE(ticket->host_keys);
  EXPECT_EQ(ticket->rescue_port, 2222u);
  EXPECT_EQ(ticket->login_wait_s, 90u);
  EXPECT_EQ(ticket->release_wishes.grace, std::chrono::seconds(60));
  EXPECT_EQ(ticket->release_wishes.hooks, std::chrono::seconds(0));
  EXPECT_FALSE(ticket->warm_enabled);
  EXPECT_FALSE(ticket->record);
  EXPECT_EQ(ticket->max_depth, 64u);
  EXPECT_EQ(ticket->max_mib_s, 80u);
  EXPECT_EQ(ticket->write_mib_s, 500u);
  EXPECT_TRUE(ticket->grow);
  const auto booted =
      parse_ticket(R"({"version":1,"deployment":"d","pool":"p","session":{"entry":"nspawn"}})");
  ASSERT_TRUE(booted);
  EXPECT_EQ(booted->entry, EntryKind::nspawn);
}

TEST(Ticket, unknown_keys_are_ignored_and_the_rest_has_defaults) {
  const auto ticket =
      parse_ticket(R"({"version":1,"deployment":"d","pool":"p","tomorrow":{"new":[1,2]}})");
  ASSERT_TRUE(ticket);
  EXPECT_EQ(ticket->manager_url, "");
  EXPECT_EQ(ticket->entry, EntryKind::chroot);
  EXPECT_TRUE(ticket->host_keys);
  EXPECT_EQ(ticket->rescue_port, 0u);
  EXPECT_EQ(ticket->login_wait_s, kDefaultLoginWaitS);
  EXPECT_EQ(ticket->release_wishes.grace, std::chrono::seconds(5));
  EXPECT_EQ(ticket->release_wishes.hooks, std::chrono::seconds(30));
  EXPECT_TRUE(ticket->warm_enabled);
  EXPECT_TRUE(ticket->record);
  EXPECT_EQ(ticket->max_depth, 0u);
  EXPECT_EQ(ticket->max_mib_s, 0u);
  EXPECT_EQ(ticket->write_mib_s, kDefaultWriteMibS);
  EXPECT_FALSE(ticket->grow);
}

struct BadTicket {
  const char* text;
  const char* sentence;
};

class BadTickets : public testing::TestWithParam<BadTicket> {};

TEST_P(BadTickets, are_refused_in_one_sentence_that_names_the_key) {
  const auto ticket = parse_ticket(GetParam().text);
  ASSERT_FALSE(ticket);
  EXPECT_EQ(ticket.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(ticket.error().message(), HasSubstr(GetParam().sentence));
  EXPECT_EQ(ticket.error().message().find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadTickets,
    testing::Values(
        BadTicket{"", "is not JSON"}, BadTicket{"#!/bin/sh", "is not JSON"},
        BadTicket{"[1]", "is not a JSON object"},
        BadTicket{R"({"deployment":"d","pool":"p"})", "no \"version\""},
        BadTicket{R"({"version":2,"deployment":"d","pool":"p"})", "has version 2"},
        BadTicket{R"({"version":1,"pool":"p"})", "no \"deployment\""},
        BadTicket{R"({"version":1,"deployment":"d"})", "no \"pool\""},
        BadTicket{R"({"version":1,"deployment":"d","pool":"../p q"})", "no \"pool\""},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","manager_url":7})", "manager_url"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","manager_url":"https://x"})",
                  "http://host:port"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"entry":"ssh"}})",
                  "session.entry"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"write_mib_s":0}})",
                  "session.write_mib_s"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"write_mib_s":"fast"}})",
                  "session.write_mib_s"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"host_keys":"no"}})",
                  "session.host_keys"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"rescue_port":65536}})",
                  "session.rescue_port"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"login_wait_s":601}})",
                  "session.login_wait_s"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"grace_s":91}})",
                  "\"session.grace_s\" that is not a whole number from 0 to 90"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"grace_s":"long"}})",
                  "session.grace_s"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"hooks_s":-1}})",
                  "session.hooks_s"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","session":{"hooks_s":30.5}})",
                  "session.hooks_s"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","warm":{"enabled":1}})",
                  "warm.enabled"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","warm":{"record":"no"}})",
                  "warm.record"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","volume":{"grow":"yes"}})",
                  "volume.grow"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","volume":7})", "\"volume\""},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","warm":{"max_depth":-3}})",
                  "warm.max_depth"},
        BadTicket{R"({"version":1,"deployment":"d","pool":"p","warm":{"max_mib_s":99999}})",
                  "warm.max_mib_s"}));

TEST(Ticket, a_file_longer_than_user_data_can_be_is_refused) {
  EXPECT_FALSE(parse_ticket(std::string(20000, ' ')));
}

}  // namespace
}  // namespace warmroot::bootstrap
