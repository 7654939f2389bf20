#ifndef TESTS_CLUSTER_BSP_BITS_H_
#define TESTS_CLUSTER_BSP_BITS_H_

#include <cstdint>

#include "common/base/clock.h"
#include "proto/job.pb.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"

namespace capstan {

// BSP on digits, an MLP 64-128-64-10, two workers.
v1::JobSpec DigitsJob(uint32_t epochs);

// Runs the job and returns parameters_xxh3. Fails the test unless it ended well in every process.
uint64_t RunAndHash(const v1::JobSpec& job, ClusterTransport& transport, Clock& clock,
                    const ClusterFaults& faults = {});

// Fails the test unless the bits equal TrainSerially's for 1, 2 and 3 servers, few and many shards,
// small and large slices, small slices in partitions, and over repeated runs.
void ExpectSameBitsWhateverTheLayout(const TransportFactory& make_transport);
// The same, with 5 % of the exchanges dropped, 5 % duplicated and 20 % delayed.
void ExpectSameBitsUnderFaults(const TransportFactory& make_transport);

// A job of 11 MB. Fails the test unless its links are measured, its values are cut and sent as
// chosen, and the bits equal TrainSerially's; also when it goes on from a checkpoint, with the same
// choice.
void ExpectSameBitsWithMeasuredLinks(const TransportFactory& make_transport);

// Fails the test unless a job with overflowing gradients ends in every process with this reason,
// also while transfers still wait for credit.
void ExpectDivergenceIsReported(const TransportFactory& make_transport);

}  // namespace capstan

#endif  // TESTS_CLUSTER_BSP_BITS_H_
