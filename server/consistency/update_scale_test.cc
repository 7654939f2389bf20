#include "server/consistency/update_scale.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(UpdateScaleTest, StalenessDividesByLiveWorkersTimesOnePlusStepsBehind) {
  // 8 versions behind among 4 workers are a staleness of 2 steps.
  EXPECT_EQ(LearningRateDivisor(UpdateScale::kStaleness, /*live_workers=*/4, /*versions_behind=*/8),
            4 * (1 + 2));
  EXPECT_EQ(LearningRateDivisor(UpdateScale::kStaleness, /*live_workers=*/4, /*versions_behind=*/0),
            4);
}

TEST(UpdateScaleTest, MeanAndSumTakeNoNoticeOfStaleness) {
  EXPECT_EQ(LearningRateDivisor(UpdateScale::kMean, /*live_workers=*/4, /*versions_behind=*/8), 4);
  EXPECT_EQ(LearningRateDivisor(UpdateScale::kSum, /*live_workers=*/4, /*versions_behind=*/8), 1);
}

TEST(UpdateScaleTest, AWorkerAloneThatIsUpToDateMovesInFull) {
  for (const UpdateScale scale : {UpdateScale::kStaleness, UpdateScale::kMean, UpdateScale::kSum}) {
    EXPECT_EQ(LearningRateDivisor(scale, /*live_workers=*/1, /*versions_behind=*/0), 1);
    // A late push when all workers count as dead.
    EXPECT_EQ(LearningRateDivisor(scale, /*live_workers=*/0, /*versions_behind=*/0), 1);
  }
}

}  // namespace
}  // namespace capstan
