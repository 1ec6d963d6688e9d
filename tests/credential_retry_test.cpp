// How often whoever gives credentials is asked, and how long it is waited in between.
#include "manager/aws/retry.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "tests/fake_surroundings.hpp"

namespace warmroot::aws {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Asked {
  std::size_t requests = 0;
  std::vector<Milliseconds> pauses;
};

/// The container's endpoint, which answers so, in this order; at last 403.
Asked ask_container(const std::vector<int>& answers) {
  FakeSurroundings fake({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"}}, {});
  fake.peer = [&](const HttpRequest&) -> Result<HttpReply> {
    const std::size_t at = fake.requests.size() - 1;
    return HttpReply{at < answers.size() ? answers[at] : 403, {}, "{}"};
  };
  Asked asked;
  Surroundings from = fake.get();
  from.sleep = [&](Milliseconds time) { asked.pauses.push_back(time); };
  EXPECT_FALSE(resolve_credentials({"", "", ""}, from));
  asked.requests = fake.requests.size();
  return asked;
}

TEST(CredentialRetry, it_waits_between_two_attempts_and_not_after_the_last) {
  const Asked in_trouble = ask_container({500, 503, 500, 500});
  EXPECT_EQ(in_trouble.requests, 3u);
  EXPECT_THAT(in_trouble.pauses, ElementsAre(kAttemptPause, kAttemptPause));
  const Asked once = ask_container({500});
  EXPECT_EQ(once.requests, 2u);
  EXPECT_THAT(once.pauses, ElementsAre(kAttemptPause));
  const Asked refused = ask_container({});
  EXPECT_EQ(refused.requests, 1u);
  EXPECT_THAT(refused.pauses, IsEmpty());
}

TEST(CredentialRetry, the_last_reply_is_the_answer_whatever_it_is) {
  int status = 500;
  const auto reply = ask_repeatedly(
      {},
      [&]() -> Result<HttpReply> {
        return HttpReply{status++, {}, ""};
      },
      has_trouble);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 502);
  EXPECT_TRUE(has_trouble(fail(ErrorKind::retry_later, "no connection")));
  EXPECT_FALSE(has_trouble(HttpReply{404, {}, ""}));
}

}  // namespace
}  // namespace warmroot::aws
