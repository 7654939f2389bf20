#include "worker/engine/local_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/time/time.h"
#include "common/base/fake_clock.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

v1::LocalSteps Settings(int64_t sync_every, double round_seconds, uint32_t fragments) {
  v1::LocalSteps settings;
  settings.set_sync_every(sync_every);
  settings.set_round_seconds(round_seconds);
  settings.set_fragments(fragments);
  return settings;
}

// How many fragments are pushed after each local step of a round, if a step takes this time.
std::vector<int> PushedAfterSteps(LocalRounds& rounds, FakeClock& clock, absl::Duration each) {
  std::vector<int> pushed;
  rounds.Begin();
  while (!rounds.is_over()) {
    clock.Advance(each);
    rounds.NoteStep();
    pushed.push_back(rounds.pushed());
  }
  return pushed;
}

TEST(LocalRoundsTest, FragmentsArePushedAtEqualPartsOfTheRound) {
  FakeClock clock;
  LocalRounds rounds(Settings(/*sync_every=*/6, 0, /*fragments=*/3), &clock);
  for (int round = 1; round <= 2; ++round) {
    EXPECT_THAT(PushedAfterSteps(rounds, clock, absl::Seconds(1)), ElementsAre(0, 1, 1, 2, 2, 3));
    EXPECT_EQ(rounds.local_steps(), 6);
    EXPECT_EQ(rounds.total(), 6 * round);
  }
}

TEST(LocalRoundsTest, ARoundByTimeEndsWithTheStepThatEndsNextToIt) {
  FakeClock clock;
  LocalRounds rounds(Settings(0, /*round_seconds=*/10, /*fragments=*/2), &clock);
  EXPECT_THAT(PushedAfterSteps(rounds, clock, absl::Seconds(3)), ElementsAre(0, 1, 2));
  EXPECT_THAT(PushedAfterSteps(rounds, clock, absl::Seconds(2)), ElementsAre(0, 1, 1, 1, 2));
  EXPECT_THAT(PushedAfterSteps(rounds, clock, absl::Hours(1)), ElementsAre(2))
      << "of a slow worker";
}

TEST(LocalRoundsTest, FragmentsAreNeighboursOfAboutEqualSize) {
  EXPECT_THAT(SplitIntoFragments({5, 5, 5, 5}, 1), ElementsAre(0, 4));
  EXPECT_THAT(SplitIntoFragments({5, 5, 5, 5}, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(SplitIntoFragments({100, 1, 1, 1}, 2), ElementsAre(0, 1, 4));
  EXPECT_THAT(SplitIntoFragments({1, 1, 1, 100}, 2), ElementsAre(0, 3, 4));
  EXPECT_THAT(SplitIntoFragments({1, 1, 100}, 3), ElementsAre(0, 1, 2, 3)) << "each has a layer";
}

}  // namespace
}  // namespace capstan
