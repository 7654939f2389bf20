// Sparse tables in a whole job, through the engine behind the C interface.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "tests/cluster/sparse_training.h"

namespace capstan {
namespace {

std::unique_ptr<ClusterTransport> InProcess(Clock* /*clock*/) {
  return std::make_unique<InProcessClusterTransport>();
}

TEST(SparseClusterTest, EveryModeTrains) { ExpectSparseTablesTrain(InProcess); }

TEST(SparseClusterTest, RowsTravelAsInt8AndBfloat16) {
  const v1::JobSpec plain = SparseJob(v1::ConsistencySpec::BSP, /*num_workers=*/2, 2);
  v1::JobSpec job = plain;
  job.mutable_codec()->set_push("int8");
  job.mutable_codec()->set_pull("bfloat16");
  const SparseResult result = TrainSparse(job, InProcess);
  EXPECT_LT(SparseError(result.rows), 0.15);
  EXPECT_NE(result.rows, TrainSparse(plain, InProcess).rows);
  EXPECT_EQ(result.rows, TrainSparse(job, InProcess).rows) << "the same bits each time";
}

TEST(SparseClusterTest, ATopkOfTheJobLeavesRowsAsTheyAre) {
  v1::JobSpec job = SparseJob(v1::ConsistencySpec::BSP, /*num_workers=*/2, 1);
  const std::vector<float> plain = TrainSparse(job, InProcess).rows;
  job.mutable_codec()->set_push("topk:0.1");
  EXPECT_EQ(TrainSparse(job, InProcess).rows, plain);
}

// With faults, and with as many servers as the job likes.
TEST(SparseClusterTest, AJobThatGoesOnFromACheckpointHasTheSameBits) {
  std::string dir = testing::TempDir() + "/rows-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  v1::JobSpec job = SparseJob(v1::ConsistencySpec::BSP, /*num_workers=*/3, /*num_servers=*/2);
  job.mutable_checkpoint()->set_dir(dir);
  job.mutable_checkpoint()->set_steps(10);
  job.mutable_checkpoint()->set_keep(99);
  job.mutable_training()->set_steps(200);
  const std::vector<float> whole = TrainSparse(job, InProcess).rows;
  ClusterFaults faults;
  faults.drop = faults.duplicate = 0.02;
  // Which of them there are depends on the machine: one that comes due while another is still being
  // written is left out.
  for (const uint32_t servers : {1, 3}) {
    job.mutable_cluster()->set_num_servers(servers);
    job.mutable_checkpoint()->set_restore(FirstCheckpoint(dir));
    EXPECT_EQ(TrainSparse(job, InProcess, faults).rows, whole) << "with " << servers << " servers";
  }
}

TEST(SparseClusterTest, AJobOfOtherModesGoesOnForMoreSteps) {
  for (const auto mode : {v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
    std::string dir = testing::TempDir() + "/rows-XXXXXX";
    ASSERT_NE(mkdtemp(dir.data()), nullptr);
    v1::JobSpec job = SparseJob(mode, /*num_workers=*/4, /*num_servers=*/2);
    job.mutable_checkpoint()->set_dir(dir);
    job.mutable_checkpoint()->set_steps(40);
    const double before = SparseError(TrainSparse(job, InProcess).rows);
    job.mutable_checkpoint()->set_restore(CheckpointOfStep(dir, 40));
    job.mutable_training()->set_steps(80);
    EXPECT_LT(SparseError(TrainSparse(job, InProcess).rows), before / 2);
  }
}

}  // namespace
}  // namespace capstan
