// Sparse tables in a whole job, through the engine behind the C interface.
#include <gtest/gtest.h>

#include <memory>

#include "tests/cluster/cluster_transport.h"
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

}  // namespace
}  // namespace capstan
