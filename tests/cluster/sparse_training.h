#ifndef TESTS_CLUSTER_SPARSE_TRAINING_H_
#define TESTS_CLUSTER_SPARSE_TRAINING_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"

namespace capstan {

// A job whose programs train two sparse tables and a dense one: each element of a row is drawn to a
// number of its own.
v1::JobSpec SparseJob(v1::ConsistencySpec::Mode mode, uint32_t num_workers, uint32_t num_servers);

struct SparseResult {
  ClusterResult cluster;
  std::vector<float> rows;  // of all keys, of both tables, as the evaluator has them
};

// Runs the job.
SparseResult TrainSparse(const v1::JobSpec& job, const TransportFactory& make_transport,
                         const ClusterFaults& faults = {});

// How far the rows are from what they are drawn to: the mean of the differences.
double SparseError(const std::vector<float>& rows);

// The same rows by one loop over maps: workers' gradients are added in order of worker, divided by
// their number, and applied by the formulas of SGD and FTRL. For BSP.
std::vector<float> TrainSparseSerially(const v1::JobSpec& job);

// BSP has the same bits with any number of servers and shards, and under faults, and is what one
// loop computes. SSP and async get near to what the rows are drawn to.
void ExpectSparseTablesTrain(const TransportFactory& make_transport);

}  // namespace capstan

#endif  // TESTS_CLUSTER_SPARSE_TRAINING_H_
