#include "common/job/slice_bytes.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(SliceBytesTest, ATunedJobHasSmallSlicesUnlessItSaysHowLarge) {
  v1::SchedulerSpec scheduler;
  EXPECT_EQ(SliceBytes(scheduler), 1u << 20);
  scheduler.set_tune(true);
  EXPECT_EQ(SliceBytes(scheduler), 256u << 10);
  scheduler.set_slice_bytes(1 << 20);
  EXPECT_EQ(SliceBytes(scheduler), 1u << 20);
}

TEST(SliceBytesTest, WholeTensorsAreCutAtTheLargestSlice) {
  v1::SchedulerSpec scheduler;
  scheduler.set_policy(v1::SchedulerSpec::TENSOR_FIFO);
  scheduler.set_slice_bytes(1 << 20);
  EXPECT_EQ(SliceBytes(scheduler), kMaxSliceBytes);
}

}  // namespace
}  // namespace capstan
