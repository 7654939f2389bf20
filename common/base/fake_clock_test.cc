#include "common/base/fake_clock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace capstan {
namespace {

TEST(FakeClockTest, RunsDueTimersInOrderOfTimeAndThenOfArrival) {
  FakeClock clock;
  std::vector<int> ran;
  clock.RunAfter(absl::Seconds(2), [&] { ran.push_back(2); });
  clock.RunAfter(absl::Seconds(1), [&] { ran.push_back(10); });
  clock.RunAfter(absl::Seconds(1), [&] { ran.push_back(11); });
  clock.RunAfter(absl::Seconds(5), [&] { ran.push_back(5); });
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(ran, (std::vector<int>{10, 11, 2}));
}

TEST(FakeClockTest, TimerSetByATimerRunsInTheSameAdvanceWhenDue) {
  FakeClock clock;
  absl::Time second_ran;
  const absl::Time start = clock.Now();
  clock.RunAfter(absl::Seconds(1),
                 [&] { clock.RunAfter(absl::Seconds(1), [&] { second_ran = clock.Now(); }); });
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(second_ran, start + absl::Seconds(2));
}

TEST(FakeClockTest, CancelledTimerDoesNotRun) {
  FakeClock clock;
  bool ran = false;
  const Clock::TimerId timer = clock.RunAfter(absl::Seconds(1), [&] { ran = true; });
  EXPECT_TRUE(clock.Cancel(timer));
  EXPECT_FALSE(clock.Cancel(timer));
  clock.Advance(absl::Seconds(2));
  EXPECT_FALSE(ran);
}

TEST(FakeClockTest, WaiterWakesWhenItsDeadlineIsReached) {
  FakeClock clock;
  Mutex mutex;
  CondVar condition;
  bool timed_out = false;
  const absl::Time deadline = clock.Now() + absl::Seconds(1);
  std::thread waiter([&] {
    MutexLock lock(&mutex);
    while (clock.WaitUntil(mutex, condition, deadline)) {
    }
    timed_out = true;
  });
  clock.Advance(absl::Seconds(1));
  waiter.join();
  EXPECT_TRUE(timed_out);
}

}  // namespace
}  // namespace capstan
