#include "common/transport/ucx/stall_watch.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace capstan {
namespace {

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

TEST(StallWatchTest, LookingInVainForLongIsAStall) {
  StallWatch watch(absl::Seconds(10), /*looks=*/3);
  EXPECT_FALSE(watch.IsStalled(At(100)));
  EXPECT_FALSE(watch.IsStalled(At(105)));
  EXPECT_FALSE(watch.IsStalled(At(109)));
  EXPECT_TRUE(watch.IsStalled(At(110)));
}

TEST(StallWatchTest, AClockThatJumpsIsNone) {
  StallWatch watch(absl::Seconds(10), /*looks=*/3);
  EXPECT_FALSE(watch.IsStalled(At(100)));
  EXPECT_FALSE(watch.IsStalled(At(1000)));
  EXPECT_TRUE(watch.IsStalled(At(1000)));
}

TEST(StallWatchTest, ProgressBeginsAnew) {
  StallWatch watch(absl::Seconds(10), /*looks=*/2);
  EXPECT_FALSE(watch.IsStalled(At(100)));
  watch.NoteProgress();
  EXPECT_FALSE(watch.IsStalled(At(110)));
  EXPECT_FALSE(watch.IsStalled(At(119)));
  EXPECT_TRUE(watch.IsStalled(At(120)));
}

}  // namespace
}  // namespace capstan
