#include "common/base/real_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace capstan {
namespace {

// Whoever reads both clocks may be interrupted between any two readings.
TEST(ReadBothClocksTest, AnInterruptionIsNoDifferenceBetweenTheClocks) {
  const absl::Time wall_zero = absl::FromUnixSeconds(1'000'000);
  constexpr int kReadings = 30;  // of both clocks
  for (int interrupted = 0; interrupted < kReadings; ++interrupted) {
    std::chrono::nanoseconds now{0};
    int readings = 0;
    const auto read = [&] {
      now += std::chrono::nanoseconds(100);
      if (readings++ == interrupted) now += std::chrono::milliseconds(5);
      return now;
    };
    const ClockReading reading =
        ReadBothClocks([&] { return wall_zero + absl::FromChrono(read()); },
                       [&] { return std::chrono::steady_clock::time_point(read()); });
    const absl::Duration since_zero = absl::FromChrono(reading.steady.time_since_epoch());
    EXPECT_EQ(reading.wall - wall_zero, since_zero) << interrupted;
  }
}

TEST(RealClockTest, BeginsWithTheTimeOfTheSystem) {
  const absl::Time before = absl::FromChrono(std::chrono::system_clock::now());
  const absl::Time now = RealClock().Now();
  const absl::Time after = absl::FromChrono(std::chrono::system_clock::now());
  // Half of the shortest reading.
  EXPECT_GE(now, before - absl::Microseconds(100));
  EXPECT_LE(now, after + absl::Microseconds(100));
}

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
