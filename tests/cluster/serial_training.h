#ifndef TESTS_CLUSTER_SERIAL_TRAINING_H_
#define TESTS_CLUSTER_SERIAL_TRAINING_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace capstan {

struct SerialResult {
  uint64_t parameters_xxh3 = 0;
  double test_accuracy = 0;
};

// What a BSP job must compute, as one loop without servers, slices or messages: in each step the
// gradients of all workers, from worker 0 on, are summed, divided by their number, and applied.
SerialResult TrainSerially(const v1::JobSpec& job);

}  // namespace capstan

#endif  // TESTS_CLUSTER_SERIAL_TRAINING_H_
