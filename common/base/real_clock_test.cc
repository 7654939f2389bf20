#include "common/base/real_clock.h"

#include <gtest/gtest.h>

#include <atomic>

namespace capstan {
namespace {

TEST(RealClockTest, RunsTimersInOrderAndWakesWaiters) {
  RealClock clock;
  Mutex mutex;
  CondVar condition;
  std::vector<int> ran;
  const auto record = [&](int value) {
    MutexLock lock(&mutex);
    ran.push_back(value);
    condition.NotifyAll();
  };
  clock.RunAfter(absl::Milliseconds(20), [&] { record(2); });
  clock.RunAfter(absl::Milliseconds(1), [&] { record(1); });
  MutexLock lock(&mutex);
  while (ran.size() < 2) clock.WaitUntil(mutex, condition, absl::InfiniteFuture());
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST(RealClockTest, CancelWaitsForARunningCallback) {
  RealClock clock;
  std::atomic<bool> started = false;
  std::atomic<bool> ended = false;
  const Clock::TimerId timer = clock.RunAfter(absl::ZeroDuration(), [&] {
    started = true;
    for (volatile int i = 0; i < 10'000'000; i = i + 1) {
    }
    ended = true;
  });
  while (!started) {
  }
  EXPECT_FALSE(clock.Cancel(timer));
  EXPECT_TRUE(ended);
}

TEST(RealClockTest, WaitReturnsFalseAtItsDeadline) {
  RealClock clock;
  Mutex mutex;
  CondVar condition;
  const absl::Time deadline = clock.Now() + absl::Milliseconds(5);
  MutexLock lock(&mutex);
  while (clock.WaitUntil(mutex, condition, deadline)) {
  }
  EXPECT_GE(clock.Now(), deadline);
}

TEST(RealClockTest, TimersLeftAtTheEndDoNotRun) {
  bool ran = false;
  {
    RealClock clock;
    clock.RunAfter(absl::Hours(1), [&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace capstan
