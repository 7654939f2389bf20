#include "common/base/simulated_clock.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/one_shot.h"

namespace capstan {
namespace {

// Waits for a virtual while, as if it computed.
void Compute(SimulatedClock& clock, absl::Duration duration) {
  Mutex mu;
  CondVar never;
  const absl::Time end = clock.Now() + duration;
  MutexLock lock(&mu);
  while (clock.WaitUntil(mu, never, end)) {
  }
}

TEST(SimulatedClockTest, ThreadsRunOneAtATimeInVirtualTime) {
  SimulatedClock clock;
  const absl::Time start = clock.Now();
  std::vector<std::string> log;  // No lock: only the thread with the baton runs.
  for (int i = 0; i < 3; ++i) {
    clock.Spawn([&, i] {
      for (int step = 0; step < 2; ++step) {
        Compute(clock, absl::Hours(3 - i));
        log.push_back(std::string(1, 'a' + i) +
                      std::to_string((clock.Now() - start) / absl::Hours(1)));
      }
    });
  }
  clock.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(log, (std::vector<std::string>{"c1", "b2", "c2", "a3", "b4", "a6"}));
  EXPECT_EQ(clock.live_threads(), 0);
}

TEST(SimulatedClockTest, ANotificationWakesItsWaiterAtTheSameTime) {
  SimulatedClock clock;
  OneShot<int> value(&clock);
  int got = 0;
  absl::Time got_at;
  clock.Spawn([&] {
    got = value.Wait();
    got_at = clock.Now();
  });
  clock.RunAfter(absl::Seconds(5), [&] { value.Set(7); });
  const absl::Time start = clock.Now();
  clock.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(got, 7);
  EXPECT_EQ(got_at, start + absl::Seconds(5));
}

TEST(SimulatedClockTest, RunUntilStopsAtItsDeadlineAndGoesOnFromThere) {
  SimulatedClock clock;
  const absl::Time start = clock.Now();
  std::vector<int> ran;
  clock.RunAfter(absl::Seconds(1), [&] { ran.push_back(1); });
  clock.RunAfter(absl::Seconds(3), [&] { ran.push_back(3); });
  clock.RunUntil(start + absl::Seconds(2));
  EXPECT_EQ(ran, std::vector<int>({1}));
  EXPECT_EQ(clock.Now(), start + absl::Seconds(2));
  clock.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(ran, std::vector<int>({1, 3}));
  EXPECT_EQ(clock.Now(), start + absl::Seconds(3));
}

TEST(SimulatedClockTest, ThreadsThatWaitForNothingAreLeftWaiting) {
  SimulatedClock clock;
  OneShot<int> value(&clock);
  clock.Spawn([&] { value.Wait(); });
  clock.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(clock.live_threads(), 1);
  value.Set(1);
  clock.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(clock.live_threads(), 0);
}

TEST(SimulatedClockTest, ACancelledTimerDoesNotRunAndMayUseTheClockWhenItIsDestroyed) {
  SimulatedClock clock;
  int ran = 0;
  auto uses_clock = std::shared_ptr<void>(nullptr, [&clock](void*) { clock.Now(); });
  const Clock::TimerId timer = clock.RunAfter(absl::Seconds(1), [&ran, uses_clock] { ++ran; });
  uses_clock = nullptr;
  EXPECT_TRUE(clock.Cancel(timer));
  EXPECT_FALSE(clock.Cancel(timer));
  clock.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(ran, 0);
}

TEST(SimulatedClockTest, EveryWaiterOfOneConditionIsWoken) {
  SimulatedClock clock;
  Mutex mu;
  CondVar changed;
  bool is_open = false;
  int passed = 0;
  for (int i = 0; i < 4; ++i) {
    clock.Spawn([&] {
      MutexLock lock(&mu);
      while (!is_open) clock.WaitUntil(mu, changed, absl::InfiniteFuture());
      ++passed;
    });
  }
  clock.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(passed, 0);
  {
    MutexLock lock(&mu);
    is_open = true;
    changed.NotifyAll();
  }
  clock.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(passed, 4);
}

}  // namespace
}  // namespace capstan
