#include "common/base/delayed_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

TEST(DelayedCallsTest, RunsEachCallWhenItsTimeHasCome) {
  FakeClock clock;
  DelayedCalls calls(&clock);
  std::vector<int> ran;
  calls.RunAfter(absl::Seconds(2), [&](bool is_due) { ran.push_back(is_due ? 2 : -2); });
  calls.RunAfter(absl::Seconds(1), [&](bool is_due) { ran.push_back(is_due ? 1 : -1); });
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(ran, std::vector<int>{1});
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST(DelayedCallsTest, StopTellsThoseThatWaitAndThoseThatComeLater) {
  FakeClock clock;
  DelayedCalls calls(&clock);
  std::vector<bool> told;
  calls.RunAfter(absl::Seconds(1), [&](bool is_due) { told.push_back(is_due); });
  calls.Stop();
  calls.RunAfter(absl::Seconds(1), [&](bool is_due) { told.push_back(is_due); });
  EXPECT_EQ(told, (std::vector<bool>{false, false}));
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(told.size(), 2);
}

TEST(DelayedCallsTest, EveryCallRunsOnceWhenStopRacesWithTheTimers) {
  RealClock clock;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> ran = 0;
    {
      DelayedCalls calls(&clock);
      for (int i = 0; i < 5; ++i) calls.RunAfter(absl::Microseconds(20 * i), [&](bool) { ++ran; });
    }
    EXPECT_EQ(ran, 5);
  }
}

}  // namespace
}  // namespace capstan
