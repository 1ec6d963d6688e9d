// Lists over HTTP: what one node recorded is handed to the next of its lineage, and what a snapshot
// holds to who has a volume of it.
#include <gmock/gmock.h>

#include <cstdint>
#include <string>

#include "bootstrap/warm/hot_list.hpp"
#include "tests/recorded_list.hpp"
#include "tests/reports_fixture.hpp"

namespace warmroot::manager {
namespace {

using testing::ElementsAre;

TEST_F(Reports, what_one_node_recorded_is_handed_to_the_next_of_its_lineage) {
  const std::string key_hex = key();
  const auto headers = [&](std::uint64_t sequence, const std::string& text) {
    return httplib::Headers{
        {"X-Warmroot-Instance", kInstance},
        {"X-Warmroot-Sequence", std::to_string(sequence)},
        {"X-Warmroot-Signature", report_signature(Secret(key_hex), sequence, text)}};
  };
  const auto put = [&](std::uint64_t sequence, const std::string& text) {
    return client_->Post("/v1/hot-list", headers(sequence, text), text, "text/plain")->status;
  };
  EXPECT_EQ(put(1, recording({1})), 404) << "nobody knows its volume's lineage";
  KnownInstance known{"imagenet", "imagenet-0", kVolume, false};
  known.lineage = "snap-0imagenet00000001";
  board_.set_known("research", {{kInstance, known}});
  EXPECT_EQ(client_->Get("/v1/hot-list", headers(2, ""))->status, 404);
  EXPECT_EQ(put(3, recording({7, 3})), 200);
  known.volume_id = "vol-0fedcba9876543210";
  board_.set_known("research", {{kInstance, known}});
  EXPECT_EQ(put(4, recording({7, 9})), 200);
  EXPECT_EQ(put(5, std::string(warm::kMostListBytes + 1, 'a')), 413);
  EXPECT_EQ(put(5, "warmroot-hot-list 1\n"), 400);
  EXPECT_EQ(put(5, recording({1})), 409) << "a replay";
  const auto reply = client_->Get("/v1/hot-list", headers(6, ""));
  ASSERT_EQ(reply->status, 200);
  const auto list = warm::decode_hot_list(reply->body);
  ASSERT_TRUE(list) << list.error().message();
  EXPECT_EQ(list->lineage, "snap-0imagenet00000001") << "by what we know, not by what it says";
  EXPECT_EQ(list->recordings, 2u) << "each node counts once, whatever it claims";
  EXPECT_THAT(warm::hot_blocks(*list, 64), ElementsAre(7, 3, 9));
  EXPECT_EQ(client_->Get("/v1/hot-list")->status, 400) << "unsigned";
  const auto of_pool = [&](std::uint64_t sequence) {
    return client_->Get("/v1/hot-list?of=pool", headers(sequence, ""));
  };
  EXPECT_EQ(of_pool(7)->status, 404) << "the pool knows no other lineage";
  known.lineage = "snap-0imagenet00000002";
  board_.set_known("research", {{kInstance, known}});
  EXPECT_EQ(client_->Get("/v1/hot-list", headers(8, ""))->status, 404);
  const auto old = of_pool(9);
  ASSERT_EQ(old->status, 200);
  EXPECT_EQ(warm::decode_hot_list(old->body)->lineage, "snap-0imagenet00000001");
  EXPECT_EQ(put(10, recording({5})), 200);
  EXPECT_EQ(warm::decode_hot_list(of_pool(11)->body)->lineage, "snap-0imagenet00000001");
  known.lineage = "snap-0imagenet00000001";
  board_.set_known("research", {{kInstance, known}});
  EXPECT_EQ(warm::decode_hot_list(of_pool(12)->body)->lineage, "snap-0imagenet00000002");
  EXPECT_EQ(client_->Get("/v1/hot-list?of=everybody", headers(13, ""))->status, 404);
  known.pool = "../imagenet";
  board_.set_known("research", {{kInstance, known}});
  EXPECT_EQ(of_pool(14)->status, 404);
  known.lineage = "../../etc/passwd";
  board_.set_known("research", {{kInstance, known}});
  EXPECT_EQ(put(15, recording({1})), 400);
}

TEST_F(Reports, what_was_asked_for_on_a_node_is_told_from_what_it_recorded_by_itself) {
  const std::string key_hex = key();
  std::uint64_t sequence = 0;
  const auto headers = [&](const std::string& text) {
    return httplib::Headers{
        {"X-Warmroot-Instance", kInstance},
        {"X-Warmroot-Sequence", std::to_string(++sequence)},
        {"X-Warmroot-Signature", report_signature(Secret(key_hex), sequence, text)}};
  };
  const auto put = [&](const std::string& path, const std::string& text) {
    return client_->Post(path, headers(text), text, "text/plain")->status;
  };
  KnownInstance known{"imagenet", "imagenet-0", kVolume, false};
  known.lineage = "snap-0imagenet00000001";
  board_.set_known("research", {{kInstance, known}});
  EXPECT_EQ(put("/v1/hot-list", recording({7})), 200);
  EXPECT_EQ(put("/v1/hot-list?asked=1", recording({9})), 200);
  EXPECT_EQ(put("/v1/hot-list?asked=1", recording({11})), 503) << "at once";
  EXPECT_EQ(put("/v1/hot-list?asked=1", "warmroot-hot-list 1\n"), 400);
  const auto reply = client_->Get("/v1/hot-list", headers(""));
  ASSERT_EQ(reply->status, 200);
  const auto list = warm::decode_hot_list(reply->body);
  ASSERT_TRUE(list) << list.error().message();
  EXPECT_EQ(list->recordings, 1u);
  EXPECT_THAT(warm::hot_blocks(*list, 64), ElementsAre(7, 9));
}

/// The only list that a volume ever sent was lost in the second before the first look at EC2.
TEST_F(Reports, a_manager_that_has_not_looked_yet_says_so_instead_of_no) {
  const std::string key_hex = key();
  ReportBoard board;
  const auto server =
      ReportServer::start({"127.0.0.1", 0}, {}, board, keys_, program_, hot_lists_, {});
  ASSERT_TRUE(server);
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto headers = [&](std::uint64_t sequence, const std::string& text) {
    return httplib::Headers{
        {"X-Warmroot-Instance", kInstance},
        {"X-Warmroot-Sequence", std::to_string(sequence)},
        {"X-Warmroot-Signature", report_signature(Secret(key_hex), sequence, text)}};
  };
  const std::string list = recording({1});
  EXPECT_EQ(client.Post("/v1/hot-list", headers(1, list), list, "text/plain")->status, 503);
  EXPECT_EQ(client.Get("/v1/hot-list", headers(2, ""))->status, 503);
  EXPECT_EQ(client.Get("/v1/block-list", headers(3, ""))->status, 503);
  board.set_known("research", {});
  EXPECT_EQ(client.Post("/v1/hot-list", headers(4, list), list, "text/plain")->status, 404);
  EXPECT_EQ(client.Get("/v1/block-list", headers(5, ""))->status, 404);
}

TEST_F(Reports, the_block_list_of_a_volumes_snapshot_is_handed_to_its_instance) {
  const std::string key_hex = key();
  std::uint64_t sequence = 0;
  const auto get = [&] {
    ++sequence;
    return client_->Get("/v1/block-list", {{"X-Warmroot-Instance", kInstance},
                                           {"X-Warmroot-Sequence", std::to_string(sequence)},
                                           {"X-Warmroot-Signature",
                                            report_signature(Secret(key_hex), sequence, "")}});
  };
  EXPECT_EQ(get()->status, 404) << "nobody knows what its volume was made from";
  KnownInstance known{"imagenet", "imagenet-0", kVolume, false};
  known.lineage = "snap-0imagenet00000009";  // a tag, which people can change
  known.snapshot_id = "snap-0imagenet00000001";
  board_.set_known("research", {{kInstance, known}});
  const auto reply = get();
  ASSERT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, std::string("\0packed", 7));
  ++sequence;
  EXPECT_EQ(json::parse(signed_report(key_hex, body(), sequence)->body)["wishes"]["snapshot_id"],
            "snap-0imagenet00000001")
      << "so that the instance can tell whose list it got";
  EXPECT_EQ(client_->Get("/v1/block-list")->status, 400) << "unsigned";
  known.block_list = false;
  board_.set_known("research", {{kInstance, known}});
  EXPECT_EQ(get()->status, 404) << "the spec does not want it";
  known.block_list = true;
  known.snapshot_id = "snap-0imagenet00000002";
  board_.set_known("research", {{kInstance, known}});
  EXPECT_EQ(get()->status, 404) << "it has not been fetched yet";
}

}  // namespace
}  // namespace warmroot::manager
