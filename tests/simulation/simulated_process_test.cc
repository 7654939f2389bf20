#include "tests/simulation/simulated_process.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/clock.h"

namespace capstan {
namespace {

TEST(SimulatedProcessTest, APausedProcessStandsStillAndThenCatchesUpInOrder) {
  SimulatedClock world;
  SimulatedProcess process(&world);
  const absl::Time start = world.Now();
  std::vector<int64_t> ran_at_ms;
  const auto note = [&] { ran_at_ms.push_back((world.Now() - start) / absl::Milliseconds(1)); };
  process.Spawn([&] {
    for (int i = 0; i < 3; ++i) {
      SleepUntil(process, process.Now() + absl::Milliseconds(10));
      note();
    }
  });
  process.RunAfter(absl::Milliseconds(15), note);
  world.RunAfter(absl::Milliseconds(12), [&] { process.Pause(); });
  world.RunAfter(absl::Milliseconds(50), [&] { process.Resume(); });
  world.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(ran_at_ms, (std::vector<int64_t>{10, 50, 50, 60}));
}

TEST(SimulatedProcessTest, ATimerOfAPausedProcessCanBeCancelled) {
  SimulatedClock world;
  SimulatedProcess process(&world);
  int ran = 0;
  const Clock::TimerId timer = process.RunAfter(absl::Milliseconds(1), [&] { ++ran; });
  process.Pause();
  world.RunUntil(world.Now() + absl::Seconds(1));
  EXPECT_TRUE(process.Cancel(timer));
  process.Resume();
  world.RunUntil(absl::InfiniteFuture());
  EXPECT_EQ(ran, 0);
}

TEST(SimulatedProcessTest, ADeadProcessRunsOnlyWhenItIsBuried) {
  SimulatedClock world;
  SimulatedProcess process(&world);
  bool has_ended = false;
  process.Spawn([&] {
    SleepUntil(process, process.Now() + absl::Milliseconds(10));
    has_ended = true;
  });
  world.RunAfter(absl::Milliseconds(5), [&] { process.Kill(); });
  world.RunUntil(world.Now() + absl::Seconds(1));
  EXPECT_FALSE(has_ended);
  EXPECT_FALSE(process.is_alive());
  process.Resume();
  world.RunUntil(absl::InfiniteFuture());
  EXPECT_FALSE(has_ended) << "the dead are not resumed";
  process.Bury();
  world.RunUntil(absl::InfiniteFuture());
  EXPECT_TRUE(has_ended);
  EXPECT_FALSE(process.is_alive());
}

}  // namespace
}  // namespace capstan
