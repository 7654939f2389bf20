#ifndef TESTS_CLUSTER_CODEC_TRAINING_H_
#define TESTS_CLUSTER_CODEC_TRAINING_H_

#include "tests/cluster/bsp_bits.h"

namespace capstan {

// Trains digits with several codecs of pushes and pulls, with 5 % of the exchanges dropped and 5 %
// duplicated. Fails the test unless
// - BSP has the same bits for 1, 2 and 3 servers, with and without faults, as in process without
//   faults;
// - BSP, SSP and async reach an accuracy of 0.8 on the test set in 100 steps;
// - each worker's pushes have the bytes of their codec.
void ExpectCodecsTrainUnderFaults(const TransportFactory& make_transport);

}  // namespace capstan

#endif  // TESTS_CLUSTER_CODEC_TRAINING_H_
