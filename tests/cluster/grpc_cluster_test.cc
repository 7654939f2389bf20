#include <gtest/gtest.h>

#include <memory>

#include "tests/cluster/bsp_bits.h"
#include "tests/cluster/codec_training.h"
#include "tests/cluster/grpc_cluster_transport.h"
#include "tests/cluster/sparse_training.h"

namespace capstan {
namespace {

std::unique_ptr<ClusterTransport> Grpc(Clock* clock) {
  return std::make_unique<GrpcClusterTransport>(clock);
}

TEST(GrpcClusterTest, BspHasTheBitsOfTheSerialProgramWhateverTheLayout) {
  ExpectSameBitsWhateverTheLayout(Grpc);
}

TEST(GrpcClusterTest, BspHasTheSameBitsWithMeasuredLinks) { ExpectSameBitsWithMeasuredLinks(Grpc); }

TEST(GrpcClusterTest, BspHasTheSameBitsUnderFaults) { ExpectSameBitsUnderFaults(Grpc); }

TEST(GrpcClusterTest, EveryCodecTrainsUnderFaults) { ExpectCodecsTrainUnderFaults(Grpc); }

TEST(GrpcClusterTest, SparseTablesTrainInEveryMode) { ExpectSparseTablesTrain(Grpc); }

TEST(GrpcClusterTest, ADivergingJobEndsEverywhereWithItsReason) {
  ExpectDivergenceIsReported(Grpc);
}

}  // namespace
}  // namespace capstan
