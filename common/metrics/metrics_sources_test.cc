#include "common/metrics/metrics_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "common/base/fake_clock.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsSourcesTest, ASourceIsAskedEachTimeUntilItsRegistrationEnds) {
  MetricsSources sources;
  int value = 1;
  std::optional<MetricsSources::Registration> registration =
      sources.Add([&value](MetricsPage& page) { page.Add("capstan_loss", value); });
  EXPECT_THAT(sources.Text(), HasSubstr("\ncapstan_loss 1\n"));
  value = 2;
  EXPECT_THAT(sources.Text(), HasSubstr("\ncapstan_loss 2\n"));
  registration.reset();
  EXPECT_THAT(sources.Text(), Not(HasSubstr("capstan_loss")));
}

TEST(MetricsSourcesTest, OftenAskedItIsSeldomMade) {
  FakeClock clock;
  RecentText text(clock);
  MetricsSources sources;
  int asked = 0;
  const auto registration = sources.Add([&asked](MetricsPage&) { ++asked; });
  for (int i = 0; i < 100; ++i) text.Get(sources);
  EXPECT_EQ(asked, 1);
  clock.Advance(RecentText::kLifetime);
  text.Get(sources);
  EXPECT_EQ(asked, 2);
}

TEST(MetricsSourcesTest, ARegistrationMayMove) {
  MetricsSources sources;
  MetricsSources::Registration kept;
  {
    MetricsSources::Registration registration =
        sources.Add([](MetricsPage& page) { page.Add("capstan_loss", 1); });
    kept = std::move(registration);
  }
  EXPECT_THAT(sources.Text(), HasSubstr("\ncapstan_loss 1\n"));
  kept = MetricsSources::Registration();
  EXPECT_THAT(sources.Text(), Not(HasSubstr("capstan_loss")));
}

TEST(MetricsSourcesTest, TheProcessIsAlwaysThere) {
  EXPECT_THAT(MetricsSources().Text(), HasSubstr("\nprocess_resident_memory_bytes "));
}

TEST(MetricsSourcesTest, AMemberSaysWhoItIs) {
  MetricsSources sources;
  const auto info = AddMemberInfo(&sources, "worker", 3, "digits");
  EXPECT_THAT(sources.Text(), HasSubstr("\ncapstan_member_info{role=\"worker\",id=\"3\",job_name="
                                        "\"digits\",version=\""));
  const auto none = AddMemberInfo(nullptr, "worker", 3, "digits");
}

}  // namespace
}  // namespace capstan
