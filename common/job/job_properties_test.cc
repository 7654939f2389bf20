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

TEST(EndStepTest, AJobEndsAfterItsSteps) {
  EXPECT_EQ(EndStep(v1::JobSpec(), /*steps=*/100, /*first_step=*/0), 100);
  EXPECT_EQ(EndStep(v1::JobSpec(), /*steps=*/100, /*first_step=*/100), 100);
}

TEST(EndStepTest, AJobThatStaysHasRoundsOfItsSteps) {
  v1::JobSpec job;
  job.set_stay(true);
  EXPECT_EQ(EndStep(job, /*steps=*/100, /*first_step=*/0), 100);
  EXPECT_EQ(EndStep(job, /*steps=*/100, /*first_step=*/99), 100);
  EXPECT_EQ(EndStep(job, /*steps=*/100, /*first_step=*/100), 200);
  EXPECT_EQ(EndStep(job, /*steps=*/INT64_MAX, /*first_step=*/5), INT64_MAX);
  EXPECT_EQ(EndStep(job, /*steps=*/INT64_MAX / 2, /*first_step=*/INT64_MAX - 1), INT64_MAX);
  EXPECT_EQ(EndStep(job, /*steps=*/0, /*first_step=*/5), 0) << "nobody has reported the length yet";
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

TEST(CodecTextTest, SaysBothWaysAndTheTablesWithTheirOwn) {
  v1::CodecSpec codec;
  EXPECT_EQ(CodecText(codec), "push float32, pull float32, tables from 16KiB on");
  codec.set_min_bytes(0);
  EXPECT_EQ(CodecText(codec), "push float32, pull float32");
  codec.set_push("topk:0.01");
  v1::TableCodec& own = *codec.add_table_codec();
  own.set_table("fc3.bias");
  own.set_codec("int8");
  EXPECT_EQ(CodecText(codec), "push topk:0.01, pull float32 (fc3.bias int8)");
  codec.set_min_bytes(1000);
  EXPECT_EQ(CodecText(codec), "push topk:0.01, pull float32 (fc3.bias int8), tables from 1000 on");
}

TEST(TransportOfTest, AutoIsGrpcWithTwoReplicas) {
  v1::JobSpec job;
  job.mutable_transport()->set_type(v1::TransportSpec::AUTO);
  job.mutable_transport()->set_grpc_connections(2);
  EXPECT_EQ(TransportOf(job).type(), v1::TransportSpec::AUTO);
  job.mutable_cluster()->set_replicas(2);
  EXPECT_EQ(TransportOf(job).type(), v1::TransportSpec::GRPC);
  EXPECT_EQ(TransportOf(job).grpc_connections(), 2u);
}

TEST(HasCodecTest, AnyCodecThatIsNotFloat32Counts) {
  v1::CodecSpec codec;
  v1::TableCodec& own = *codec.add_table_codec();
  own.set_table("w");
  own.set_codec("float32");
  EXPECT_FALSE(HasCodec(codec));
  EXPECT_FALSE(HasPushCodec(codec));
  codec.set_pull("int8");
  EXPECT_TRUE(HasCodec(codec));
  EXPECT_FALSE(HasPushCodec(codec));
  own.set_codec("bfloat16");
  EXPECT_TRUE(HasPushCodec(codec)) << "gradients and values of this table";
  own.set_codec("float32");
  codec.set_push("topk:5");
  EXPECT_TRUE(HasPushCodec(codec));
}

TEST(ReplicaConnectionsTest, AServerHasConnectionsToAllOthersIfShardsHaveCopies) {
  v1::JobSpec job;
  job.mutable_cluster()->set_num_servers(5);
  job.mutable_transport()->set_grpc_connections(4);
  job.mutable_cluster()->set_replicas(1);
  EXPECT_EQ(ReplicaConnections(job), 0u);
  job.mutable_cluster()->set_replicas(2);
  EXPECT_EQ(ReplicaConnections(job), 16u);
}

TEST(HasTopkTest, PushesPullsAndTablesCount) {
  for (const char* topk : {"topk:5", "topk:0.1:int8"}) {
    v1::CodecSpec push, pull, table;
    push.set_push(topk);
    EXPECT_TRUE(HasTopk(push));
    EXPECT_FALSE(HasTopkPull(push));
    pull.set_pull(topk);
    EXPECT_TRUE(HasTopk(pull));
    table.add_table_codec()->set_codec(topk);
    EXPECT_TRUE(HasTopk(table));
    EXPECT_TRUE(HasTopkPull(table));
  }
  v1::CodecSpec dense;
  dense.set_push("int8");
  dense.set_pull("auto");
  EXPECT_FALSE(HasTopk(dense));
}

}  // namespace
}  // namespace capstan
