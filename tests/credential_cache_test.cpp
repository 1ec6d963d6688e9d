// When credentials are renewed, what happens when that fails, and what a refusal leads to: a clock
// that the test moves.
#include "manager/aws/credential_cache.hpp"

#include <gtest/gtest.h>

using namespace warmroot;
using namespace warmroot::aws;
using namespace std::chrono_literals;

namespace {

/// A source whose sets are numbered.
struct World {
  Instant now = *parse_iso8601("2026-01-02T03:04:05Z");
  Milliseconds life = 1h;
  bool works = true;
  bool of_instance = false;
  bool for_ever = false;
  int looks = 0;
  int news = 0;
  Milliseconds look_takes = 0ms;
  CredentialCache cache{[this] { return find(); }, [this] { return now; }, [] { return 0.5; }};

  World() {
    cache.on_new = [this](const FoundCredentials&) { ++news; };
  }
  Result<FoundCredentials> find() {
    ++looks;
    now += look_takes;
    if (!works) return fail(ErrorKind::retry_later, "the source has trouble");
    FoundCredentials found{{"AK" + std::to_string(for_ever ? 1 : looks), Secret("s"), Secret("t")},
                           "the test"};
    if (!for_ever) found.expires = now + life;
    found.outlive_expiry = of_instance;
    return found;
  }
  std::string get() {
    const auto keys = cache.get();
    return keys ? keys->access_key_id : "error: " + keys.error().context;
  }
};

}  // namespace

TEST(CredentialCache, keeps_what_it_has_until_a_quarter_of_an_hour_before_the_end) {
  World world;
  EXPECT_EQ(world.get(), "AK1");
  world.now += 44min;
  EXPECT_EQ(world.get(), "AK1");
  EXPECT_EQ(world.looks, 1);
  world.now += 2min;
  EXPECT_EQ(world.get(), "AK2");
  EXPECT_EQ(world.news, 2);
}

TEST(CredentialCache, a_short_life_is_used_for_two_thirds_and_not_renewed_for_every_call) {
  World world;
  world.life = 15min;
  EXPECT_EQ(world.get(), "AK1");
  world.now += 9min;
  EXPECT_EQ(world.get(), "AK1");
  world.now += 90s;
  EXPECT_EQ(world.get(), "AK2");
}

TEST(CredentialCache, a_renewal_that_fails_leaves_the_old_ones_and_is_repeated_calmly_then_often) {
  World world;
  EXPECT_EQ(world.get(), "AK1");
  world.works = false;
  world.now += 46min;
  EXPECT_EQ(world.get(), "AK1");
  EXPECT_EQ(world.get(), "AK1");
  EXPECT_EQ(world.looks, 2) << "not for every call";
  world.now += 61s;
  EXPECT_EQ(world.get(), "AK1");
  EXPECT_EQ(world.looks, 3);
  world.now += 5min;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(world.get(), "AK1");
    world.now += 5s;
  }
  EXPECT_EQ(world.looks, 15) << "every five seconds in the last ten minutes";
  world.works = true;
  EXPECT_EQ(world.get(), "AK16");
}

TEST(CredentialCache, a_look_that_takes_longer_than_the_pause_after_it_is_followed_by_a_pause) {
  World world;
  EXPECT_EQ(world.get(), "AK1");
  world.now += 51min;
  world.works = false;
  world.look_takes = 30s;
  EXPECT_EQ(world.get(), "AK1");
  ASSERT_EQ(world.looks, 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.get(), "AK1");
  EXPECT_EQ(world.looks, 2) << "good keys do not wait for the next one";
}

TEST(CredentialCache, what_has_ended_is_not_used_but_for_an_instances_role) {
  World world;
  EXPECT_EQ(world.get(), "AK1");
  world.works = false;
  world.now += 61min;
  EXPECT_EQ(world.get(), "error: the source has trouble");
  world.works = true;
  world.now += 2s;
  EXPECT_EQ(world.get(), "AK3");

  World instance;
  instance.of_instance = true;
  EXPECT_EQ(instance.get(), "AK1");
  instance.works = false;
  instance.now += 61min;
  EXPECT_EQ(instance.get(), "AK1");
  instance.now += 5min;
  EXPECT_EQ(instance.get(), "AK1");
  EXPECT_EQ(instance.looks, 2) << "the metadata service is left alone for two to ten minutes";
  instance.now += 2min;
  instance.works = true;
  EXPECT_EQ(instance.get(), "AK3");
}

TEST(CredentialCache, an_instance_whose_service_gives_ended_keys_goes_on_with_them) {
  World world;
  world.of_instance = true;
  world.life = -1min;
  EXPECT_EQ(world.get(), "AK1");
  EXPECT_EQ(world.get(), "AK1");
  EXPECT_EQ(world.looks, 1);
  World other;
  other.life = -1min;
  EXPECT_EQ(other.get(), "error: the credentials of the test have expired; renew them");
}

TEST(CredentialCache, a_refusal_makes_it_look_once_and_not_for_every_call) {
  World world;
  world.for_ever = true;
  const auto keys = world.cache.get();
  ASSERT_TRUE(keys);
  for (int i = 0; i < 10; ++i) {
    world.cache.refused(*keys);
    EXPECT_EQ(world.get(), "AK1");
  }
  EXPECT_EQ(world.looks, 2);
  EXPECT_EQ(world.news, 1) << "the same keys are no news";
  world.now += 6s;
  world.works = false;
  world.cache.refused(*keys);
  EXPECT_EQ(world.get(), "AK1") << "a look that fails leaves what there was";
  EXPECT_EQ(world.looks, 3);
  world.cache.refused({"AKOTHER", Secret("s"), Secret()});
  world.now += 6s;
  EXPECT_EQ(world.get(), "AK1");
  EXPECT_EQ(world.looks, 3) << "a refusal of older keys says nothing about these";
}

TEST(CredentialCache, with_nothing_at_all_the_error_is_the_sources_and_looks_are_paced) {
  World world;
  world.works = false;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(world.get(), "error: the source has trouble");
  EXPECT_EQ(world.looks, 1);
  world.now += 1s;
  world.works = true;
  EXPECT_EQ(world.get(), "AK2");
}
