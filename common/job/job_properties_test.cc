#include "common/job/job_properties.h"

#include <gtest/gtest.h>

#include "common/tensor/slicing.h"

namespace capstan {
namespace {

TEST(JobFingerprintTest, EqualJobsHaveEqualFingerprints) {
  v1::JobSpec a, b;
  a.set_name("a");
  a.mutable_training()->set_steps(5);
  b.mutable_training()->set_steps(5);
  b.set_name("a");
  EXPECT_EQ(JobFingerprint(a), JobFingerprint(b));
}

TEST(JobFingerprintTest, AnyFieldChangesIt) {
  v1::JobSpec a, b;
  b.mutable_consistency()->set_staleness(1);
  EXPECT_NE(JobFingerprint(a), JobFingerprint(b));
}

// XXH3-64 of the empty input with seed 0, from xxHash's own test suite.
TEST(JobFingerprintTest, EmptyJobHasThePublishedHashOfNoBytes) {
  EXPECT_EQ(JobFingerprint(v1::JobSpec()), 0x2d06800538d394c2u);
}

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

TEST(ConsistencyTextTest, SaysModeAndStaleness) {
  v1::ConsistencySpec consistency;
  EXPECT_EQ(ConsistencyText(consistency), "bsp");
  consistency.set_mode(v1::ConsistencySpec::SSP);
  consistency.set_staleness(4);
  EXPECT_EQ(ConsistencyText(consistency), "ssp, staleness 4");
  v1::TableStaleness& own = *consistency.add_table_staleness();
  own.set_table("fc1.weight");
  own.set_staleness(2);
  EXPECT_EQ(ConsistencyText(consistency), "ssp, staleness 4 (fc1.weight 2)");
  consistency.set_mode(v1::ConsistencySpec::ASYNC);
  EXPECT_EQ(ConsistencyText(consistency), "async");
}

}  // namespace
}  // namespace capstan
